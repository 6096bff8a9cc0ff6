"""The kernel's variables that decide what its text has to be, read from its memory page by page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final, NamedTuple, Self

import numpy as np

from prologue.arrays import U64, Bool, sorted_unique
from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols
from prologue.live.memory.base import Memory
from prologue.live.memory.capture import Capture
from prologue.live.memory.ranges import KERNEL_HALF, PAGE, Range, UnmappedError
from prologue.live.memory.reading import read_if_there
from prologue.live.structs.layouts import Layouts, layouts_of
from prologue.live.system.running_kernel import RunningKernel
from prologue.releases import version_of

_PAGE: Final = np.uint64(PAGE)
_FIRST, _LAST = KERNEL_HALF // PAGE, (1 << 64) // PAGE - 1  # pages that may be the kernel's

_MOST_PIECES: Final = 20_000  # a core has fewer than 65,535 segments
_MUTEX_FLAGS: Final = 7  # low bits of a mutex's owner (kernel/locking/mutex.c)


class MemoryWords(NamedTuple):
    """Values, and which of them could be read (the others are 0); arrays of shape (n,)."""

    values: U64
    known: Bool


class Variables:
    """Variables by name (link-time symbols) and memory by run-time address. Pages are read once and kept.

    ``layouts`` has the offsets of members in the kernel's structs. With the kernel's ``image``, a page of zeros that
    has other bytes in the file was not read: /proc/kcore and copies of it give zeros for pages that they do not have.
    Only what is read-only after init may have become zero at boot (``rodata_is_rw``, alone in its page).
    """

    def __init__(
        self, memory: Memory, symbols: Symbols | None, slide: int, layouts: Layouts, image: ElfImage | None = None
    ) -> None:
        self._memory = memory
        self.layouts = layouts
        self._image = image
        self.partial = isinstance(memory, Capture)  # memory that cannot be read may be there nevertheless
        self._symbols = symbols
        self._slide = slide
        self._pages: dict[int, bytes | None] = {}
        self._unread: set[int] = set()  # pages of zeros that are not zeros in the kernel

    @classmethod
    def of_kernel(cls, kernel: RunningKernel, memory: Memory | None = None) -> Self:
        """Return the variables of a kernel, in another memory than its own if one is given."""
        version = kernel.version or version_of(kernel.memory.info.release)
        layouts = layouts_of(kernel.image, version, realtime=kernel.is_realtime)
        return cls(memory or kernel.memory, kernel.symbols, kernel.slide, layouts, kernel.image)

    @cached_property
    def _after_init(self) -> range:
        """Link-time addresses of what is read-only after init."""
        ends = ("__start_ro_after_init", "__end_ro_after_init")
        start, end = (self._symbols.find(name) if self._symbols is not None else None for name in ends)
        return range(0) if start is None or end is None else range(start.vaddr, end.vaddr)

    def place(self, name: str) -> int | None:
        """Return the run-time address of a variable; None if there is no symbol of that name, or more than one."""
        symbols = self._symbols.with_prefix(name) if self._symbols is not None else ()
        vaddrs = {symbol.vaddr for symbol in symbols if symbol.name == name}
        return (vaddrs.pop() + self._slide) & (1 << 64) - 1 if len(vaddrs) == 1 else None

    def is_named(self, name: str) -> bool:
        """Return whether a symbol has that name, alone or with a suffix of the compiler's (``modules.llvm.12``)."""
        symbols = self._symbols.with_prefix(name) if self._symbols is not None else ()
        return any(symbol.name == name or symbol.name.startswith(f"{name}.") for symbol in symbols)

    def size(self, name: str) -> int:
        """Return the size of a variable in bytes, as its symbol has it; 0 if there is none."""
        symbol = self._symbols.find(name) if self._symbols is not None else None
        return symbol.size if symbol else 0

    def number(self, name: str, size: int = 8) -> int | None:
        """Return the unsigned value of a variable of ``size`` bytes; None if it cannot be read."""
        vaddr = self.place(name)
        data = None if vaddr is None else self.read(vaddr, size)
        return None if data is None else int.from_bytes(data, "little")

    def read(self, vaddr: int, size: int) -> bytes | None:
        """Read bytes by run-time address; None unless all of them are there."""
        pages = range(vaddr // PAGE, (vaddr + size - 1) // PAGE + 1)
        self.fetch(pages)
        parts = [self._pages[page] for page in pages]
        if not self._unread.isdisjoint(pages):
            return None
        if any(part is None for part in parts):  # captures have no more of the heap than its structures
            inside = KERNEL_HALF <= vaddr < vaddr + size < 1 << 64
            return read_if_there(self._memory, vaddr, size) if inside else None
        start = vaddr % PAGE
        return b"".join(part for part in parts if part is not None)[start : start + size]

    def is_held(self, mutex: str) -> bool:
        """Return whether a mutex has an owner: what it protects may be half written. No if it cannot be read."""
        place, offset = self.place(mutex), self.layouts.get("mutex.owner")
        owner = None if place is None or offset is None else self.quad(place + offset)
        return bool(owner and owner & ~_MUTEX_FLAGS)

    def quad(self, vaddr: int) -> int | None:
        """Read a 64-bit word by run-time address; None if it cannot be read."""
        data = self.read(vaddr, 8)
        return None if data is None else int.from_bytes(data, "little")

    def at(self, places: U64, width: int) -> MemoryWords:
        """Read words of 4 or 8 bytes at run-time addresses, each inside of a page; shape (n,)."""
        numbers = places // _PAGE
        pages = sorted_unique(numbers)
        self.fetch(pages.tolist())
        have = np.array([self._pages[page] is not None for page in pages.tolist()], np.bool_)
        content = b"".join(self._pages[page] or bytes(PAGE) for page in pages.tolist())
        words = np.frombuffer(content, f"<u{width}")
        row = np.searchsorted(pages, numbers).astype(np.int64)
        offset = (places % _PAGE).astype(np.int64)
        known = have[row] & (offset % width == 0) if len(pages) else np.zeros(0, np.bool_)
        at = np.where(known, row * PAGE + offset, 0) // width
        values = words[at].astype(np.uint64)
        return MemoryWords(np.where(known, values, np.uint64(0)), known)

    def fetch(self, pages: Iterable[int]) -> None:
        """Read pages, by number, that were not read before: neighbours together, and all with one question."""
        wanted = sorted({page for page in pages if page not in self._pages})
        runs: list[Range] = []
        for page in wanted:
            if not _FIRST <= page < _LAST:
                self._pages[page] = None
            elif runs and runs[-1].end == page * PAGE:
                runs[-1] = Range(runs[-1].vaddr, runs[-1].size + PAGE)
            else:
                runs.append(Range(page * PAGE, PAGE))
        try:
            for run, data in zip(runs, self._memory.read_many(runs) if runs else [], strict=True):
                self._keep(run, data)
        except UnmappedError:
            for run in runs:
                self._read_by_page(run)

    def _keep(self, run: Range, data: bytes | None) -> None:
        for k in range(run.size // PAGE):
            page = None if data is None else data[k * PAGE : (k + 1) * PAGE]
            number = run.vaddr // PAGE + k
            if page is not None and not any(page) and self._has_values(number * PAGE - self._slide):
                page = None
                self._unread.add(number)
            self._pages[number] = page

    def _has_values(self, vaddr: int) -> bool:
        """Return whether the file has any byte other than zero in that page, which boot does not set."""
        if vaddr in self._after_init and vaddr + PAGE <= self._after_init.stop:
            return False
        for section in self._image.sections if self._image is not None else ():
            start, end = max(vaddr, section.addr), min(vaddr + PAGE, section.addr + section.size)
            if start < end and section.allocated and section.has_bytes:
                assert self._image is not None  # noqa: S101 - it has sections
                if any(self._image.read(section.offset + start - section.addr, end - start)):
                    return True
        return False

    def _read_by_page(self, run: Range) -> None:
        data = read_if_there(self._memory, *run)
        if data is not None or run.size == PAGE:
            self._keep(run, data)
            return
        for vaddr in range(run.vaddr, run.end, PAGE):
            self._read_by_page(Range(vaddr, PAGE))

    def fetch_named(self, names: Sequence[str]) -> None:
        """Read the pages of several variables at once."""
        self.fetch(place // PAGE for name in names if (place := self.place(name)) is not None)


class KeptVariables(Variables):
    """Variables that keep every range that was read of them, so that a capture can have what an audit reads."""

    def __init__(
        self, memory: Memory, symbols: Symbols | None, slide: int, layouts: Layouts, image: ElfImage | None = None
    ) -> None:
        super().__init__(memory, symbols, slide, layouts, image)
        self._kept: dict[Range, bytes] = {}

    def read(self, vaddr: int, size: int) -> bytes | None:
        """Read bytes as ``Variables.read``, and keep them."""
        data = super().read(vaddr, size)
        if data is not None:
            self._kept[Range(vaddr, size)] = data
        return data

    def pieces(self, near: int = 0) -> Sequence[tuple[int, bytes]]:
        """Return address and bytes of all that was read, ascending and apart.

        Ranges that touch are one piece; so are those with at most ``near`` bytes between them, which are kept as well,
        or at most a page if they would be too many pieces for a core.
        """
        pieces = self._joined(near)
        return pieces if len(pieces) <= _MOST_PIECES else self._joined(PAGE)

    def _joined(self, near: int) -> Sequence[tuple[int, bytes]]:
        pieces: list[tuple[int, bytearray]] = []
        for (vaddr, _), data in sorted(self._kept.items()):
            between = self._between(*pieces[-1], vaddr, near) if pieces else None
            if between is None:
                pieces.append((vaddr, bytearray(data)))
                continue
            start, whole = pieces[-1]
            whole += between
            whole[vaddr - start : vaddr - start + len(data)] = data
        return [(vaddr, bytes(data)) for vaddr, data in pieces]

    def _between(self, start: int, data: bytearray, vaddr: int, near: int) -> bytes | None:
        """Return the bytes from the end of a piece to ``vaddr``; None if they are too many, or memory lacks them."""
        end = start + len(data)
        if vaddr <= end:
            return b""
        return super().read(end, vaddr - end) if vaddr - end <= near else None
