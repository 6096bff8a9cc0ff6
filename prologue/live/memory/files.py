"""Opens cores that are files."""

from __future__ import annotations

import mmap
from pathlib import Path

from prologue.elf.files import open_regular
from prologue.errors import InputError
from prologue.live.memory.core import CoreFile, CoreMemory
from prologue.live.memory.state import KernelState


class PlainCore(CoreMemory):
    """A core that is read as it is: its segments have the kernel's addresses, as those of /proc/kcore."""

    live = False

    def state(self, vmlinux: Path | None = None) -> KernelState:
        """Refuse: such a file has no state."""
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
    """Make a core of bytes at hand."""

    def pread(offset: int, count: int) -> bytes:
        return content[offset : offset + count]

    return CoreFile(name, pread, size)
