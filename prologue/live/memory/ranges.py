"""Ranges of the kernel's virtual addresses, and what of them memory may lack."""

from __future__ import annotations

from typing import Final, NamedTuple

from prologue.errors import InputError

TOP: Final = (1 << 64) - 1  # the highest address; sums of addresses are cut to it
PAGE: Final = 4096  # the smallest page of arm64; what is there or not is a multiple of it
KERNEL_HALF: Final = 1 << 63  # addresses from here on are the kernel's (Documentation/arch/arm64/memory.rst)
KERNEL_LOWEST: Final = 0xFFF << 52  # the lowest that a kernel can map: addresses have 52 bits at most (the same file)


class Range(NamedTuple):
    """Virtual addresses from ``vaddr`` on; ``size`` in bytes."""

    vaddr: int
    size: int

    @property
    def end(self) -> int:
        """The address after the last."""
        return self.vaddr + self.size


class UnmappedError(InputError):
    """Some of the bytes that were asked for are not in this memory."""
