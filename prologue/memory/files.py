"""Opens cores that are files."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from pathlib import Path

from prologue.elf.files import open_regular
from prologue.errors import InputError
from prologue.memory.base import KernelInfo, Range
from prologue.memory.core import CoreFile
from prologue.memory.state import KernelState


class PlainCore:
    """A core that is read as it is: its segments have the kernel's addresses, as those of /proc/kcore."""

    live = False

    def __init__(self, core: CoreFile) -> None:
        self.core = core
        self.name = core.name

    @property
    def info(self) -> KernelInfo:
        """What VMCOREINFO says."""
        return self.core.info

    def read(self, vaddr: int, size: int) -> bytes:
        """Memory of when it was written."""
        return self.core.read(vaddr, size)

    def read_many(self, ranges: Sequence[Range]) -> list[bytes]:
        """Several ranges, one after the other."""
        return [self.read(*piece) for piece in ranges]

    def state(self, vmlinux: Path | None = None) -> KernelState:
        """Not in such a file."""
        raise InputError(
            "does not say which modules were loaded: take a capture (prologue live capture)", path=self.name
        )


def open_core(path: Path) -> CoreFile:
    """Open an ELF core.

    Raises:
        InputError: as ``CoreFile``, or it cannot be opened.

    """
    with open_regular(path) as (fd, size):
        mapped = mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
    return core_of(str(path), mapped, size)


def core_of(name: str, content: bytes | mmap.mmap, size: int) -> CoreFile:
    """A core whose bytes are at hand."""

    def pread(offset: int, count: int) -> bytes:
        return content[offset : offset + count]

    return CoreFile(name, pread, size)
