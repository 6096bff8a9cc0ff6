"""The scene of a judgement: a file, its running text, and the data that mechanisms need."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prologue.arrays import U32, U64
from prologue.kernel.binary import Binary
from prologue.live.structs.variables import MemoryWords, Variables


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A running kernel, or a module of it.

    ``binary.text`` is the text that runs (breakpoints taken out), ``binary.image`` the file as linked. ``slide`` leads
    from the file's addresses to those of memory. ``variables`` are the kernel's.
    """

    binary: Binary
    slide: int
    variables: Variables
    kernel: Binary
    kernel_slide: int
    unstable: bool = False  # some of its words still changed after several readings

    def runs_at(self, vaddrs: U64) -> U64:
        """Return the run-time addresses of link-time ones."""
        return vaddrs + np.uint64(self.slide & (1 << 64) - 1)

    def read(self, vaddrs: U64, width: int) -> MemoryWords:
        """Read data of the file from memory: words of ``width`` bytes at link-time addresses, shape (n,)."""
        return self.variables.at(self.runs_at(vaddrs), width)

    def callback_names(self, vaddr: int) -> tuple[str, ...]:
        """Return the names of the kernel's function that an alternative calls."""
        linked = vaddr if self.binary is self.kernel else vaddr - self.kernel_slide & (1 << 64) - 1
        return self.kernel.symbols.names_at(linked)

    def linked(self, vaddrs: U64) -> U32:
        """Return instructions as they were linked."""
        return self.binary.image.words(vaddrs)
