"""Compiles QEMU plugins for this machine, and programs of guests and boards for arm64. Made once and cached."""

from __future__ import annotations

import hashlib
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Final

from prologue_bench.errors import BenchError
from prologue_bench.guest.vm import qemu_version
from prologue_bench.host import cache, programs
from prologue_bench.host.programs import CROSS

_STOP_BASE: Final = 0x400000  # where stop.S lies
# The sources of each plugin: each uses only what comes after it. All headers lie beside them.
_SOURCES: Final = {
    "count": ("count", "in_init", "classes", "arguments"),
    "workload": ("workload", "classes", "arguments"),
    "writes": (
        "writes", "watching", "places", "flush", "rows", "maintenance", "tables", "first_runs", "frames", "modules",
        "pages", "memory", "cpus", "allocate", "options", "inside", "arguments",
    ),
    "record": ("record", "flow", "window", "output", "branching", "inside", "arguments"),
}  # fmt: skip
# A kernel with 64 KiB pages maps segments that are aligned to them.
_FREESTANDING: Final = (
    "-Wall", "-ffreestanding", "-nostdlib", "-static", "-no-pie", "-Wl,-z,max-page-size=65536,--build-id=none",
)  # fmt: skip
# QEMU passes callbacks more than they need.
_WARNINGS: Final = ("-Wall", "-Wextra", "-Wno-unused-parameter")


def build_plugin(name: str) -> Path:
    """Build ``plugin/NAME.c`` and what it uses as a shared library for this machine's QEMU; return its path."""
    room = files("prologue_bench.exact").joinpath("plugin")
    headers = sorted(part.name for part in room.iterdir() if part.name.endswith(".h"))
    sources = [f"{source}.c" for source in _SOURCES[name]]
    contents = {part: room.joinpath(part).read_bytes() for part in (*sources, *headers)}
    # From 9.0 on QEMU wants version 2 or newer; what we use of the interface did not change.
    api = 1 if qemu_version() < (9, 0) else 2
    flags = ("-std=gnu11", "-O2", *_WARNINGS, "-fPIC", "-fvisibility=hidden", "-shared", f"-DPLUGIN_API={api}")
    return _compile(f"lib{name}.so", contents, "gcc", flags)


def build_guest(source: str, base: int) -> Path:
    """Build ``SOURCE`` of this room as a static arm64 program without a library, linked at one address."""
    flags = ("-O2", *_FREESTANDING, f"-Wl,-Ttext-segment={base:#x}")
    content = files("prologue_bench.exact").joinpath(source).read_bytes()
    return _compile(Path(source).stem, {source: content, **_calls()}, f"{CROSS}gcc", flags)


def build_counter() -> bytes:
    """Build the program that counts events of a board's CPU (recorder/count.c): a static one, as small as can be.

    Raises:
        BenchError: there is no compiler for arm64.

    """
    small = ("-Os", "-s", "-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-Wl,-z,noseparate-code")
    content = files("prologue_bench.recorder").joinpath("count.c").read_bytes()
    return _compile("count", {"count.c": content, **_calls()}, f"{CROSS}gcc", (*small, *_FREESTANDING)).read_bytes()


def build_stop() -> Path:
    """Build an init that powers off as its first act; return its path."""
    return build_guest("stop.S", _STOP_BASE)


def _calls() -> dict[str, bytes]:
    """Return the header with system calls, for programs without a library."""
    return {"syscall.h": files("prologue_bench.exact").joinpath("syscall.h").read_bytes()}


def _compile(name: str, sources: dict[str, bytes], compiler: str, flags: tuple[str, ...]) -> Path:
    """Compile the sources into one file. Headers are among them, since the others include them."""
    program, version = programs.find(compiler), programs.version(compiler)
    key = hashlib.sha256(b"|".join((*sources.values(), version, repr(flags).encode()))).hexdigest()[:16]

    def make(path: Path) -> None:
        for source, content in sources.items():
            (path.parent / source).write_bytes(content)
        compiled = [str(path.parent / source) for source in sources if not source.endswith(".h")]
        command = [program, *flags, *compiled, "-o", str(path)]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            raise BenchError(f"{compiler} cannot build {name}: {done.stderr.decode(errors='replace').strip()}")

    return cache.produce(f"exact/{key}-{name}", make)


if __name__ == "__main__":
    for plugin in _SOURCES:
        print(build_plugin(plugin))
