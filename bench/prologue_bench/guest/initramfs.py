"""The guest's root file system: busybox, hackbench with its libraries, and our own init."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from prologue.elf.compressed import decompress
from prologue_bench.errors import BenchError
from prologue_bench.guest import deb, packages
from prologue_bench.host import cache, programs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SUITE: Final = "bookworm"
_PACKAGES: Final = ("busybox-static", "rt-tests", "libc6", "libnuma1")
# Counts how the archive is put together; raise it with any change that makes another one of the same parts.
_LAYOUT: Final = 1


def build_initramfs(modules: Sequence[Path] = ()) -> Path:
    """Build a newc cpio archive, once for each version of its parts; return its path.

    ``modules`` are ``.ko`` files, compressed or not; the guest gets them plain, and its jobs load them in this order.

    Raises:
        BenchError: the packages can neither be fetched nor found in the cache.

    """
    debs = packages.download(_SUITE, _PACKAGES)
    scripts = {name: files("prologue_bench.guest").joinpath(name).read_bytes() for name in ("init", "jobs.sh")}
    loaded = plain_modules(modules)
    parts = [*scripts.values(), *(p.name.encode() for p in debs)]
    hashed = hashlib.sha256(b"layout %d" % _LAYOUT + b"".join(parts))
    for name, data in loaded.items():
        hashed.update(name.encode() + data)
    key = f"initramfs/{hashed.hexdigest()[:16]}.cpio"
    return cache.produce(key, lambda path: _make(path, scripts, debs, loaded))


def fetch_programs() -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Fetch busybox, and hackbench with its libraries, by path inside; and the names of their packages.

    Raises:
        BenchError: the packages can neither be fetched nor found in the cache.

    """
    debs = packages.download(_SUITE, _PACKAGES)
    return _programs(debs), tuple(sorted(unquote(package.stem).removesuffix("_arm64") for package in debs))


def describe_guest(names: Sequence[str], inside: Iterable[bytes]) -> str:
    """Describe what runs in a guest: the packages of its programs, and a hash of all files in it."""
    return f"{', '.join(names)}; sha256 {hashlib.sha256(b''.join(inside)).hexdigest()[:16]}"


def _programs(debs: tuple[Path, ...]) -> dict[str, bytes]:
    parts = [deb.PackageFiles(package) for package in debs]
    content = {"bin/busybox": _find(parts, "busybox"), "bin/hackbench": _find(parts, "hackbench")}
    todo = [content["bin/hackbench"]]
    while todo:
        for name in _needed(todo.pop()):
            if f"lib/{name}" not in content:
                content[f"lib/{name}"] = _find(parts, name)
                todo.append(content[f"lib/{name}"])
    return content


def plain_modules(modules: Sequence[Path]) -> dict[str, bytes]:
    """Unpack ``.ko`` files, compressed or not, by their paths inside, which sort in the same order."""
    return {f"modules/{k:02d}-{path.name.partition('.ko')[0]}.ko": _plain(path) for k, path in enumerate(modules)}


def _plain(module: Path) -> bytes:
    data = module.read_bytes()
    return data if module.suffix == ".ko" else decompress(data, module)


def _make(path: Path, scripts: dict[str, bytes], debs: tuple[Path, ...], modules: dict[str, bytes]) -> None:
    content = scripts | _programs(debs) | modules
    path.write_bytes(pack(content, ("bin", "lib", "modules", "proc", "sys", "dev", "tmp")))


def pack(content: dict[str, bytes], directories: Sequence[str] = ()) -> bytes:
    """Make a newc archive of executable files (by path inside) and directories; the same parts give the same bytes.

    Raises:
        MissingToolError: no cpio.
        BenchError: it failed.

    """
    cpio = programs.find("cpio")
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name)
        for directory in directories:
            (tree / directory).mkdir()
        for inside, data in content.items():
            (tree / inside).write_bytes(data)
        # cpio keeps modes and times: with these fixed, the same parts give the same archive everywhere.
        for made in tree.rglob("*"):
            made.chmod(0o755)
            os.utime(made, (0, 0))
        names = sorted(str(p.relative_to(tree)) for p in tree.rglob("*"))
        command = [cpio, "--quiet", "--create", "--format=newc", "--reproducible", "--owner=+0:+0"]
        done = subprocess.run(command, cwd=tree, input="\n".join(names).encode(), capture_output=True, check=False)
    if done.returncode:
        raise BenchError(f"cpio failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def _find(parts: list[deb.PackageFiles], name: str) -> bytes:
    for part in parts:
        data = part.find(name)
        if data is not None:
            return data
    raise BenchError(f"{name} is in none of the packages {', '.join(_PACKAGES)}")


def _needed(program: bytes) -> list[str]:
    """Return the loader and the libraries that an ELF file asks for."""
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(io.BytesIO(program))
    dynamic: Any = elf.get_section_by_name(".dynamic")
    names = [tag.needed for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"]
    interpreter: Any = elf.get_section_by_name(".interp")
    if interpreter is not None:
        names.append(interpreter.data().rstrip(b"\0").decode().rpartition("/")[2])
    return names
