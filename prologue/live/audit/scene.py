"""One file whose text is judged, and what every mechanism needs besides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prologue.arrays import U32, U64
from prologue.kernel.binary import Binary
from prologue.live.audit.variables import MemoryWords, Variables


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A running kernel, or a module of it.

    ``binary.text`` is what runs (breakpoints taken out), ``binary.image`` what was linked. ``slide`` leads from the
    file's addresses to those of memory. ``variables`` are the kernel's.
    """

    binary: Binary
    slide: int
    variables: Variables
    kernel: Binary
    kernel_slide: int
    restless: bool = False  # some of its words still changed after several readings

    def runs_at(self, vaddrs: U64) -> U64:
        """Run-time addresses of the file's."""
        return vaddrs + np.uint64(self.slide & (1 << 64) - 1)

    def read(self, vaddrs: U64, width: int) -> MemoryWords:
        """Data of the file as memory has it."""
        return self.variables.at(self.runs_at(vaddrs), width)

    def callback_names(self, vaddr: int) -> tuple[str, ...]:
        """Names of the function, one of the kernel's, that an alternative calls."""
        linked = vaddr if self.binary is self.kernel else vaddr - self.kernel_slide & (1 << 64) - 1
        return self.kernel.symbols.names_at(linked)

    def linked(self, vaddrs: U64) -> U32:
        """Instructions as they were linked."""
        return self.binary.image.words(vaddrs)
