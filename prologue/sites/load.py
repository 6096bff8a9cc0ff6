"""Opens whatever file with patch sites one is given: a vmlinux, or a module, compressed or not."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from prologue.elf.files import open_regular
from prologue.elf.identify import identify
from prologue.elf.image import ElfImage
from prologue.errors import InputError
from prologue.sites.binary import Binary
from prologue.sites.kernel import Kernel
from prologue.sites.module import Module

MODULE_SUFFIXES = (".ko", ".ko.gz", ".ko.xz", ".ko.zst")


def open_binary(path: Path, *, unsigned: bool = False) -> Binary:
    """Open a vmlinux or a module; ``unsigned`` leaves a module's appended signature out.

    Raises:
        InputError: neither, damaged, or compressed in a way that modules are not.

    """
    with open_regular(path) as (fd, _):
        head = os.pread(fd, 4096, 0)
    if not identify(head, len(head)).kind.startswith("compressed-"):
        image = ElfImage(path)
        if not image.relocatable:
            return Kernel(image)
        module = Module(image)
        return _without_signature(module) if unsigned and module.signature else module

    from prologue.elf.compressed import compression, decompress

    content = decompress(path.read_bytes(), path)
    kind = identify(content[:4096], len(content))
    if kind.kind != "module":
        raise InputError(f"{kind.description}, compressed: unpack it first", path=path)
    module = Module(ElfImage(path, content), compression(head))
    return _without_signature(module) if unsigned and module.signature else module


def _without_signature(module: Module) -> Module:
    assert module.signature is not None  # noqa: S101 - the callers looked
    proper = module.image.read(0, module.signature.start)
    return Module(ElfImage(module.path, proper), module.compression, stripped=True)


def named_files(paths: list[Path]) -> list[Path]:
    """The files that were named, and all modules below the directories that were; errors as ``find_modules``."""
    found: list[Path] = []
    for path in paths:
        try:
            is_directory = path.is_dir()
        except OSError:  # opening it will say what is wrong
            is_directory = False
        found += find_modules(path) if is_directory else [path]
    return found


def find_modules(directory: Path) -> list[Path]:
    """All modules below a directory, sorted by path; symbolic links are not followed.

    Raises:
        InputError: there is none.

    """

    def unreadable(error: OSError) -> None:
        raise InputError(f"cannot be read: {error.strerror}", path=error.filename)

    # Not rglob: it passes over what may not be read.
    files = (Path(top, name) for top, _, names in os.walk(directory, onerror=unreadable) for name in names)
    found = sorted(p for p in files if p.name.endswith(MODULE_SUFFIXES) and not p.is_symlink())
    if not found:
        raise InputError("no modules (*.ko, *.ko.gz, *.ko.xz, *.ko.zst) in this directory", path=directory)
    return found


def unfollowed_links(directory: Path) -> list[str]:
    """Names of the links, below a directory of modules, that ``find_modules`` passes over, relative to it; sorted.

    None for a file. Links that lead nowhere are left out.
    """
    entries = (os.path.join(top, name) for top, below, files in os.walk(directory) for name in (*below, *files))  # noqa: PTH118 - thousands
    links = [path for path in entries if os.path.islink(path)]  # noqa: PTH114 - as above
    found = [path for path in links if path.endswith(MODULE_SUFFIXES) or Path(path).is_dir()]
    return sorted(os.path.relpath(path, directory) for path in found)


def is_vmlinux(path: Path) -> bool:
    """Whether the file begins like a vmlinux; no, too, if it cannot be read."""
    try:
        with open_regular(path) as (fd, _):
            head = os.pread(fd, 4096, 0)
    except InputError:
        return False
    return identify(head, len(head)).kind == "elf"


def load_vmlinux(path: Path) -> Kernel:
    """The kernel that will load the modules; read once in each process, unless it changes."""
    try:
        status = path.stat()
    except OSError as error:
        raise InputError(f"cannot be opened: {error.strerror}", path=path) from error
    return _load_vmlinux(path, (status.st_ino, status.st_mtime_ns, status.st_size))


@cache
def _load_vmlinux(path: Path, _identity: tuple[int, int, int]) -> Kernel:
    return Kernel(ElfImage(path))


def mismatch(module: Binary, vmlinux: Kernel) -> str:
    """Why this module cannot be meant for that kernel; empty if it can."""
    release = module.release if isinstance(module, Module) else ""
    if release and vmlinux.release and release != vmlinux.release:
        return f"built for {release}, but {vmlinux.path} is {vmlinux.release}"
    if module.sites is not None and len(module.sites) and module.layout != vmlinux.layout:
        return f"layout {module.layout}, but {vmlinux.path} has {vmlinux.layout}"
    return ""
