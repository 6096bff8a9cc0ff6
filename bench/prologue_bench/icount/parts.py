"""What a counted boot needs beside the kernel: the plugin, and an init that only marks where the counting stops."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from elftools.elf.elffile import ELFFile

from prologue_bench import cache, tools
from prologue_bench.errors import BenchError
from prologue_bench.initramfs import pack

_HOST_CC: Final = "gcc"
_GUEST_CC: Final = "aarch64-linux-gnu-gcc"
_PLUGIN_FLAGS: Final = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared", "-fvisibility=hidden")
# A fixed place, so that its first instruction has an address that nothing else has.
_INIT_FLAGS: Final = ("-nostdlib", "-static", "-Wl,-Ttext-segment=0x77770000", "-Wl,--build-id=none")


def plugin() -> Path:
    """The plugin, compiled for this machine; made once for each version of source and compiler."""
    return _compile(_HOST_CC, "count.c", _PLUGIN_FLAGS, "so")


def stop_archive() -> tuple[Path, int]:
    """A newc archive whose /init is ``stop.S``, and the address of its first instruction."""
    init = _compile(_GUEST_CC, "stop.S", _INIT_FLAGS, "elf")
    with init.open("rb") as stream:
        entry = int(ELFFile(stream).header["e_entry"])
    data = init.read_bytes()
    key = f"icount/{hashlib.sha256(data).hexdigest()[:16]}.cpio"
    return cache.produce(key, lambda path: _write_archive(path, data)), entry


def _write_archive(path: Path, init: bytes) -> None:
    # /dev/console is missing, and nobody writes to it.
    path.write_bytes(pack({"init": init}))


def _compile(compiler: str, source: str, flags: tuple[str, ...], suffix: str) -> Path:
    found = tools.find(compiler)
    version = subprocess.run([found, "--version"], capture_output=True, check=True).stdout.splitlines()[0]
    part = files("prologue_bench.icount").joinpath(source)
    made_by = b"|".join([part.read_bytes(), version, " ".join(flags).encode()])
    key = f"icount/{source}-{hashlib.sha256(made_by).hexdigest()[:16]}.{suffix}"

    def make(path: Path) -> None:
        with as_file(part) as file, tempfile.TemporaryDirectory(dir=path.parent) as name:
            result = Path(name) / "result"
            done = subprocess.run(
                [found, *flags, "-o", str(result), str(file)], capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise BenchError(f"{compiler} cannot compile {source}:\n{done.stderr.strip()}")
            result.rename(path)

    return cache.produce(key, make)
