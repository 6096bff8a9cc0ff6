"""The exception level of a host's kernel, by the first ranges of a trace."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

import numpy as np

from prologue.live.memory.ranges import KERNEL_HALF
from prologue.live.system.programs import Program
from prologue.trace.ranges import NO_LEVEL, NO_VMID, OTHER_WORLD, Batch

_LOOK: Final = 1 << 20  # ranges


def find_host_level(
    batches: Iterator[Batch], host: Program, *, unnumbered: bool, likely: int | None = None
) -> tuple[int | None, Iterator[Batch]]:
    """Find the level: 2 with VHE, 1 with nVHE, None if the first ranges do not show it; return all batches, too.

    Without VHE, EL2 has one range of virtual addresses, the lower one (Arm ARM, "VMSAv8-64 address translation": one
    TTBR); so kernel addresses at EL2 are VHE's. Otherwise the host's text at EL1 under VMID 0 is nVHE's. With VHE it is
    at EL1 only while the kernel boots, before it goes back to EL2 (``finalise_el2``, arch/arm64/kernel/hyp-stub.S,
    6.1-7.2).
    ``unnumbered``: a range without a VMID is no guest's. Text of perf has no levels: its first batch ends the search.
    ``likely`` is the level that the trace was set up for: the first text of the host there ends the search, too.
    """
    seen: list[Batch] = []
    level, count = None, 0
    for batch in batches:
        seen.append(batch)
        if len(batch.ranges) and not count and (batch.ranges["level"] == NO_LEVEL).all():
            break
        ranges = batch.ranges[batch.ranges["flags"] & np.uint8(OTHER_WORLD) == 0]  # EL2 of another world is no host's
        if ((ranges["level"] == 2) & (ranges["start"] >= np.uint64(KERNEL_HALF))).any():
            level = 2
            break
        is_host = unnumbered or likely == 1
        own = (ranges["level"] == 1) & ((ranges["vmid"] == 0) | ((ranges["vmid"] == NO_VMID) & np.bool_(is_host)))
        candidates = ranges[own]
        if len(candidates) and (host.piece_of(candidates["start"], candidates["end"]) >= 0).any():
            level = 1
            if likely == 1:
                break
        count += len(batch.ranges)
        if count >= _LOOK:
            break
    return level, chain(seen, batches)
