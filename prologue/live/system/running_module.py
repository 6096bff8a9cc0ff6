"""A loaded module: its placed file with the text that memory has, as ``RunningKernel`` is for a vmlinux."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np

from prologue.arrays import U64, Bool, among
from prologue.insn import a64
from prologue.kernel.binary import LinkedBinary, Pointers
from prologue.kernel.kernel import Kernel
from prologue.kernel.module_loader import RECORDS
from prologue.kernel.records import Bounds, Records, read_records
from prologue.kernel.sites import Layout, Sites, find_sites
from prologue.kernel.state import State, module_state
from prologue.kernel.text import Text
from prologue.live.memory.base import Memory
from prologue.live.memory.ranges import PAGE, UnmappedError
from prologue.live.memory.state import FREED
from prologue.live.system.placed_module import PlacedModule
from prologue.live.system.running_kernel import LiveText
from prologue.live.system.running_text import SectionPlace, absent_section, read_sections, require_loaded

_MOST_PLT: Final = 1 << 20  # bytes


class RunningModule(LinkedBinary):
    """A placed module with the text that memory has."""

    def __init__(self, placed: PlacedModule, memory: Memory, kernel: Kernel) -> None:
        """Read the text; ``kernel`` is the one that loaded the module.

        Raises:
            InputError: memory cannot be read, or has nothing where the module was loaded.

        """
        super().__init__(placed.image)
        self.placed, self.memory = placed, memory
        self._kernel = kernel
        sections = [SectionPlace(s, self.image.view(s, "<u4"), s.addr) for s in self.image.text_sections]
        freed = [absent_section(s) for s in sections if s.section.name.startswith(FREED)]
        stays = read_sections(memory, [s for s in sections if not s.section.name.startswith(FREED)])
        require_loaded(stays, self.path, memory)
        unplaced = [self.image.sections[number] for number in placed.unplaced]
        absent = [absent_section(SectionPlace(s, self.image.view(s, "<u4"), s.addr)) for s in unplaced]
        self.live_text = LiveText(self.image, [*freed, *stays, *(replace(s, freed=False) for s in absent)])

    @property
    def text(self) -> Text:
        """Running text."""
        return self.live_text

    @cached_property
    def records(self) -> Records | None:
        """The records, which the loader relocated."""
        section = self.image.section(RECORDS)
        if section is None or not section.has_bytes or not section.allocated:
            return None
        end = section.addr + section.size // 8 * 8
        return read_records(self.image, Bounds(start=section.addr, stop=end, file_offset=section.offset))

    @cached_property
    def sites(self) -> Sites | None:
        """The sites by the words of the file."""
        return find_sites(self.image, self.symbols, self.records, self.layout) if self.records else None

    @property
    def layout(self) -> Layout:
        """The kernel's."""
        return self._kernel.layout

    @property
    def state(self) -> State:
        """Progress of processing."""
        return module_state(self.sites) if self.sites is not None else "no sites"

    @property
    def release(self) -> str:
        """Not asked for here: it is the kernel's."""
        return ""

    @property
    def pointers(self) -> Pointers:
        """Pointers that are still to be relocated: none."""
        return Pointers(np.zeros(0, np.uint64), np.zeros(0, np.uint64))

    def absolute64(self, fields: U64) -> U64:
        """Read the field: the loader has relocated it."""
        return self._read_fields(fields, 8)[1]

    def _read_fields(self, fields: U64, width: int) -> tuple[Bool, U64]:
        """Leave out fields that refer to what has no known place, as if the file did not have them."""
        inside, words = super()._read_fields(fields, width)
        inside &= ~among(fields, self.placed.unresolved)
        return inside, np.where(inside, words, np.uint64(0))

    def is_other_text(self) -> bool:
        """Return whether most words differ that neither a loader nor a tracer changes."""
        differ = count = 0
        for live in self.live_text.live.values():
            vaddrs = np.uint64(live.section.addr) + np.arange(len(live.linked), dtype=np.uint64) * np.uint64(4)
            fixed = (live.linked != a64.NOP) & live.present & ~live.zeros & ~among(vaddrs, self.placed.relocated)
            differ += int((live.linked != live.words)[fixed].sum())
            count += int(fixed.sum())
        return 2 * differ > count

    def read_plt(self, vaddr: int) -> bytes:
        """Read the PLT entries from there on: up to the next section, without zeros after the last; b"" if none."""
        others = [place for place in self.placed.loaded.sections.values() if place > vaddr]
        limit = min([vaddr + _MOST_PLT, *others])
        data = b""
        with suppress(UnmappedError):  # nothing is mapped after the module
            while (place := vaddr + len(data)) < limit:
                data += self.memory.read(place, min(PAGE - place % PAGE, limit - place))
                if not data[place - vaddr :].strip(b"\0"):  # kcore has zeros there, and then other modules
                    break
        data = data.rstrip(b"\0")
        return data + b"\0" * (-len(data) % 4)
