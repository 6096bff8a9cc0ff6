"""Opens any file with patch sites: a vmlinux or a module, compressed or not."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path

from prologue.elf.files import open_regular
from prologue.elf.identify import BOOT_FILES, FileKind, identify
from prologue.elf.image import ElfImage
from prologue.errors import InputError
from prologue.kernel.binary import Binary
from prologue.kernel.kernel import Kernel
from prologue.kernel.module import Module
from prologue.kernel.module_build import why_other_build
from prologue.kernel.required import require_symbols
from prologue.outputs import same_file

MODULE_SUFFIXES = (".ko", ".ko.gz", ".ko.xz", ".ko.zst")


def open_binary(path: Path, *, unsigned: bool = False, unpack: bool = False) -> Kernel | Module:
    """Open a vmlinux or a module.

    ``unsigned`` leaves a module's appended signature out. ``unpack`` is for callers that only read: it opens a
    compressed vmlinux, too, and refuses one that was stripped in part.

    Raises:
        InputError: neither, damaged, or compressed in a way that it may not be.

    """
    with open_regular(path) as (fd, _):
        head = os.pread(fd, 4096, 0)
    if not identify(head, len(head)).kind.startswith("compressed-"):
        image = ElfImage(path)
        if not image.relocatable:
            return open_judged(image) if unpack else Kernel(image)
        module = Module(image)
        return _without_signature(module) if unsigned and module.signature else module

    from prologue.elf.compressed import compression

    pieces = _pieces(path)
    begin, kind = _begin(pieces)
    if kind.kind == "elf" and unpack:
        return open_judged(ElfImage(path, _unpacked(path, chain((begin,), pieces))))
    if kind.kind != "module":
        advice = kind.advice if kind.kind in BOOT_FILES else ": unpack it first"
        raise InputError(f"{kind.description}, compressed{advice}", path=path)
    module = Module(ElfImage(path, b"".join(chain((begin,), pieces))), compression(head))
    return _without_signature(module) if unsigned and module.signature else module


def open_judged(image: ElfImage) -> Kernel:
    """Open a kernel that has all its symbols (see ``require_symbols``).

    The build step does not look: its rules need few symbols, and it has to be quick.

    Raises:
        InputError: not an arm64 vmlinux with symbols, or stripped in part.

    """
    kernel = Kernel(image)
    require_symbols(kernel)
    return kernel


def boot_file(path: Path) -> FileKind | None:
    """Recognise a boot file, compressed with gzip, xz or zstd or not; None for all others."""
    with open_regular(path) as (fd, size):
        kind = identify(os.pread(fd, 4096, 0), size)
    name = kind.kind.removeprefix("compressed-")
    if name != kind.kind:
        kind = _begin(_pieces(path))[1]
        kind = kind._replace(description=f"{kind.description}, compressed with {name}")
    return kind if kind.kind in BOOT_FILES else None


def _pieces(path: Path) -> Iterator[bytes]:
    from prologue.elf.compressed import pieces

    with open_regular(path) as (fd, _):
        yield from pieces(mmap.mmap(fd, 0, access=mmap.ACCESS_READ), path)


def _begin(pieces: Iterator[bytes]) -> tuple[bytes, FileKind]:
    """Unpack the first bytes of a compressed file, and name its content."""
    begin = b""
    while len(begin) < 4096 and (piece := next(pieces, None)) is not None:
        begin += piece
    return begin, identify(begin[:4096], len(begin))


def _unpacked(path: Path, pieces: Iterable[bytes]) -> mmap.mmap:
    """Unpack into a mapped file without a name: a vmlinux with debug information has some 400 MB."""
    import tempfile

    try:
        with tempfile.TemporaryFile() as spool:
            for piece in pieces:
                spool.write(piece)
            spool.flush()
            return mmap.mmap(spool.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise InputError(f"cannot be unpacked in {tempfile.gettempdir()}: {error.strerror}", path=path) from error


def _without_signature(module: Module) -> Module:
    proper = module.image.read(0, module.unsigned_size)
    return Module(ElfImage(module.path, proper), module.compression, stripped=True)


def named_files(paths: list[Path]) -> list[Path]:
    """Return the files that were named, and all modules below directories, each once; errors as ``find_modules``."""
    files: list[Path] = []
    for path in paths:
        try:
            is_directory = path.is_dir()
        except OSError:  # opening it will say what is wrong
            is_directory = False
        files += find_modules(path) if is_directory else [path]
    return list(dict.fromkeys(files))


def find_modules(directory: Path) -> list[Path]:
    """Find all modules below a directory, sorted by path; symbolic links are not followed.

    Raises:
        InputError: there is none.

    """

    def unreadable(error: OSError) -> None:
        raise InputError(f"cannot be read: {error.strerror}", path=error.filename)

    # Not rglob: it passes over what may not be read.
    files = (Path(top, name) for top, _, names in os.walk(directory, onerror=unreadable) for name in names)
    modules = sorted(p for p in files if p.name.endswith(MODULE_SUFFIXES) and not p.is_symlink())
    if not modules:
        raise InputError("no modules (*.ko, *.ko.gz, *.ko.xz, *.ko.zst) in this directory", path=directory)
    return modules


def unfollowed_links(directory: Path) -> list[str]:
    """Return the links below a directory of modules that ``find_modules`` passes over, relative to it; sorted.

    Empty if ``directory`` is a file. Links that lead nowhere are left out.
    """
    entries = (os.path.join(top, name) for top, below, files in os.walk(directory) for name in (*below, *files))  # noqa: PTH118 - thousands
    links = [path for path in entries if os.path.islink(path)]  # noqa: PTH114 - as above
    links_left = [path for path in links if path.endswith(MODULE_SUFFIXES) or Path(path).is_dir()]
    return sorted(os.path.relpath(path, directory) for path in links_left)


def is_vmlinux(path: Path) -> bool:
    """Return whether the file, unpacked if need be, begins like a vmlinux; no, too, if it cannot be read."""
    try:
        with open_regular(path) as (fd, _):
            head = os.pread(fd, 4096, 0)
        kind = identify(head, len(head)).kind
        return kind == "elf" or (kind.startswith("compressed-") and _begin(_pieces(path))[1].kind == "elf")
    except InputError:
        return False


def load_vmlinux(path: Path) -> Kernel:
    """Load the kernel that will load the modules; read once in each process, unless it changes.

    Raises:
        InputError: it cannot be read, or is no vmlinux.

    """
    try:
        status = path.stat()
    except OSError as error:
        raise InputError(f"cannot be opened: {error.strerror}", path=path) from error
    return _load_vmlinux(path, (status.st_ino, status.st_mtime_ns, status.st_size))


@cache
def _load_vmlinux(path: Path, _identity: tuple[int, int, int]) -> Kernel:
    kernel = open_binary(path, unpack=True)
    if not isinstance(kernel, Kernel):
        raise InputError("is a module: name the vmlinux of its kernel", path=path)
    return kernel


def kernel_of(module: Module, paths: Sequence[Path]) -> Kernel | None:
    """Choose the vmlinux that loads the module; None if there are no files.

    Raises:
        InputError: none of them can, or more than one may.

    """
    kernels = [load_vmlinux(path) for path in paths]
    wrong = [mismatch(module, kernel) for kernel in kernels]
    able = [kernel for kernel, reason in zip(kernels, wrong, strict=True) if not reason]
    same = [kernel for kernel in able if kernel.release == module.release]
    if len(same or able) > 1:
        names = ", ".join(str(kernel.path) for kernel in same or able)
        raise InputError(f"may be of more than one kernel ({names}): name its kernel with --vmlinux", path=module.path)
    if kernels and not able:
        advice = "that is not its kernel" if len(kernels) == 1 else "none of these is its kernel"
        raise InputError(f"{'; '.join(wrong)}: {advice}", path=module.path)
    return (same or able)[0] if able else None


def kernels_among(named: Path | None, files: Sequence[Path]) -> tuple[Path, ...]:
    """Return the named vmlinux, or each vmlinux among the files, once. Without one, a release refuses modules."""
    if named:
        return (named,)
    kernels: list[Path] = []
    for path in files:
        if not path.name.endswith(MODULE_SUFFIXES) and is_vmlinux(path) and is_missing(path, kernels):
            kernels.append(path)
    return tuple(kernels)


def is_missing(kernel: Path, files: Sequence[Path]) -> bool:
    """Return whether the kernel is not among the files, so that it has to be verified besides them."""
    return not any(same_file(kernel, path) for path in files)


def mismatch(module: Binary, vmlinux: Kernel) -> str:
    """Say why this module cannot be meant for that kernel; empty if it can."""
    if isinstance(module, Module) and (wrong := why_other_build(module, vmlinux)):
        return wrong
    if module.sites is not None and len(module.sites) and module.layout != vmlinux.layout:
        return f"layout {module.layout}, but {vmlinux.path} has {vmlinux.layout}"
    return ""


def why_incomparable(before: Binary, after: Binary) -> str:
    """Say why the two were not made from one link; empty if they may have been."""
    ours, theirs = ((each.release, each.build_id) for each in (after, before))
    if any(new and old and new != old for new, old in zip(ours, theirs, strict=True)):
        return f"another build: {_build(*ours)}, before {_build(*theirs)}"
    sizes = proper_size(before), proper_size(after)
    if sizes[0] != sizes[1]:
        return f"the files have different sizes: {sizes[0]} and {sizes[1]} bytes"
    return ""


def _build(release: str, build_id: str) -> str:
    return ", ".join([release or "release unknown", *([f"build-id {build_id}"] if build_id else [])])


def proper_size(binary: Binary) -> int:
    """Return the size of a file without a signature that was appended."""
    return binary.unsigned_size if isinstance(binary, Module) else binary.image.size
