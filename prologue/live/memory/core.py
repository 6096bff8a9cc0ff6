"""ELF cores whose segments have kernel addresses: /proc/kcore and what is like it. Read as they are, without drgn.

Nothing is loaded in advance: /proc/kcore seems to have the size of the whole address space.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from prologue.elf.files import open_regular
from prologue.elf.identify import identify
from prologue.elf.sections import PHDR
from prologue.errors import InputError
from prologue.live.memory.base import KernelInfo, read_vmcoreinfo
from prologue.live.memory.ranges import KERNEL_HALF, Range, UnmappedError
from prologue.live.memory.state import KernelState

Reader = Callable[[int, int], bytes]
"""Bytes of the file by offset and size; fewer at its end."""

# Elf64_Ehdr from e_type on (System V gABI, "ELF Header").
_EHDR: Final = struct.Struct("<HHIQQQIHHHHHH")
_PT_LOAD, _PT_NOTE = 1, 4
NO_PADDR: Final = (1 << 64) - 1
"""``p_paddr`` of segments of /proc/kcore that are not physically contiguous: vmalloc, modules."""
_MANY: Final = 0xFFFF  # PN_XNUM: the number is elsewhere
_MAX_NOTES: Final = 64 << 20
_NT_PRSTATUS, _NT_ARM_SVE = 1, 0x405  # include/uapi/linux/elf.h, 6.12
_PC: Final = 368  # in struct elf_prstatus (include/linux/elfcore.h, 6.12): 112 bytes, x0 to x30, and sp are before it


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreSegment:
    """A program header: PT_LOAD or PT_NOTE."""

    type: int
    offset: int
    vaddr: int
    paddr: int
    filesz: int


class Note(NamedTuple):
    """A note of the core."""

    name: str
    type: int
    data: bytes


def _size_of(note: Note) -> int:
    """Return the note's bytes in the file, with the header; its name ends with a zero byte there."""
    return 12 + (len(note.name) + 4) // 4 * 4 + (len(note.data) + 3) // 4 * 4


def walk_notes(data: bytes) -> Iterator[Note]:
    """Yield the notes of a segment; a damaged one ends them."""
    at = 0
    while at + 12 <= len(data):
        name_size, size, kind = struct.unpack_from("<III", data, at)
        body = at + 12 + (name_size + 3) // 4 * 4
        if body + size > len(data) or not name_size:
            return
        name = data[at + 12 : at + 12 + name_size].rstrip(b"\0").decode("ascii", "replace")
        yield Note(name, kind, data[body : body + size])
        at = body + (size + 3) // 4 * 4


def kernel_pcs(notes: Iterable[Note]) -> tuple[int, ...]:
    """Return where CPUs executed the kernel, by the notes of their registers."""
    states = (note.data for note in notes if note.name == "CORE" and note.type == _NT_PRSTATUS)
    pcs = (int.from_bytes(data[_PC : _PC + 8], "little") for data in states)
    return tuple(pc for pc in pcs if pc >= KERNEL_HALF)


class CoreFile:
    """Headers, notes and memory of one core.

    Args:
        name: what it is called in messages.
        reader: gives its bytes.
        size: of the file, in bytes; None if that says nothing (/proc/kcore).

    Raises:
        InputError: no core of a little-endian arm64 kernel, truncated, or damaged.

    """

    def __init__(self, name: str, reader: Reader, size: int | None) -> None:
        self.name = name
        self._reader = reader
        head = reader(0, 64)
        kind = identify(head, len(head))
        if kind.kind != "core":
            raise InputError(f"{kind.description}; expected a core of an arm64 kernel", path=name)
        _, _, _, _, phoff, _, _, _, phentsize, phnum, _, _, _ = _EHDR.unpack_from(head, 16)
        if phentsize != PHDR.size or phnum == _MANY:
            raise InputError(f"{phnum} program headers of {phentsize} bytes: damaged, or no kernel's core", path=name)
        table = reader(phoff, phnum * phentsize)
        if len(table) < phnum * phentsize:
            raise InputError("the program headers are not all there: truncated", path=name)
        headers = [
            CoreSegment(type=kind_, offset=offset, vaddr=vaddr, paddr=paddr, filesz=filesz)
            for kind_, _, offset, vaddr, paddr, filesz, _, _ in PHDR.iter_unpack(table)
        ]
        self.loads = tuple(segment for segment in headers if segment.type == _PT_LOAD and segment.filesz)
        self._notes = [segment for segment in headers if segment.type == _PT_NOTE]
        self._require_inside(size, self._notes)
        self._require_places()
        self._require_inside(size, self.loads)

    def _require_inside(self, size: int | None, segments: Sequence[CoreSegment]) -> None:
        end = max((segment.offset + segment.filesz for segment in segments), default=0)
        if size is not None and end > size:
            raise InputError(f"a segment ends at {end:#x}, the file at {size:#x}: truncated", path=self.name)

    def _require_places(self) -> None:
        """Refuse a dump whose memory follows notes of another size than the headers have.

        QEMU (seen with 7.2) takes the registers of the first CPU for the size of all CPUs' (cpu_get_note_size() in its
        target/arm/arch_dump.c); those of SVE are as long as the vectors that the CPU uses at the time.
        """
        wanted = sum(segment.filesz for segment in self._notes)
        if any(note.type == _NT_ARM_SVE for note in self.notes) and sum(map(_size_of, self.notes)) != wanted:
            message = "its memory is not where its headers say: the CPUs used SVE vectors of different lengths"
            raise InputError(f"{message}, which QEMU cannot dump; start it with -cpu ...,sve=off", path=self.name)

    @property
    def is_virtual(self) -> bool:
        """True if segments have the kernel's addresses; a dump of physical memory has none."""
        return any(segment.vaddr >= KERNEL_HALF for segment in self.loads)

    @cached_property
    def notes(self) -> tuple[Note, ...]:
        """All notes; a damaged one ends the list."""
        if large := [segment.filesz for segment in self._notes if segment.filesz > _MAX_NOTES]:
            raise InputError(f"notes of {large[0]} bytes: damaged", path=self.name)
        contents = (self._reader(segment.offset, segment.filesz) for segment in self._notes)
        return tuple(note for content in contents for note in walk_notes(content))

    def note(self, name: str) -> bytes | None:
        """Return the data of the first note of that name."""
        return next((note.data for note in self.notes if note.name == name), None)

    @cached_property
    def info(self) -> KernelInfo:
        """Content of VMCOREINFO; empty if it is not there."""
        text = self.note("VMCOREINFO")
        return KernelInfo() if text is None else read_vmcoreinfo(text, self.name)

    def segment_of(self, vaddr: int, size: int = 1) -> CoreSegment | None:
        """Return the segment that has these bytes, the smallest if several have.

        On arm64 the kernel's image also lies in kcore's segment for vmalloc.
        """
        holding = [s for s in self.loads if s.vaddr <= vaddr and vaddr + size <= s.vaddr + s.filesz]
        return min(holding, key=lambda segment: segment.filesz, default=None)

    def place_of(self, vaddr: int, size: int) -> int:
        """Return the offset in the file of memory at that address; errors as ``read``."""
        segment = self.segment_of(vaddr, size)
        if segment is None:
            raise UnmappedError(f"no memory at {vaddr:#x}-{vaddr + size:#x}", path=self.name)
        return segment.offset + vaddr - segment.vaddr

    def read(self, vaddr: int, size: int) -> bytes:
        """Read memory by the kernel's address.

        Raises:
            UnmappedError: no segment has all of it.

        """
        data = self._reader(self.place_of(vaddr, size), size)
        if len(data) < size:
            raise UnmappedError(f"{len(data)} of {size} bytes at {vaddr:#x}", path=self.name)
        return data


class CoreMemory:
    """Common part of every memory that is read from a core as it is."""

    def __init__(self, core: CoreFile) -> None:
        self.core = core
        self.name = core.name

    @property
    def info(self) -> KernelInfo:
        """Content of VMCOREINFO; empty if it is not there."""
        return self.core.info

    def read(self, vaddr: int, size: int) -> bytes:
        """Read memory by the kernel's address; errors as ``CoreFile.read``."""
        return self.core.read(vaddr, size)

    def read_many(self, ranges: Sequence[Range]) -> list[bytes]:
        """Read several ranges, one after the other."""
        return [self.read(*piece) for piece in ranges]


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
