"""Chooses the sites of a kernel that are read back on the running machine."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from prologue.arrays import U64
from prologue.kernel.kernel import Kernel
from prologue_bench.errors import BenchError


def sample_sites(vmlinux: Path, count: int = 256, seed: int = 1) -> tuple[int, ...]:
    """Choose sites in text that stays after boot: half evenly spread, half at random.

    Returns:
        Bytes from ``_stext`` to their first slots, ascending; all of them if there are no more than ``count``.

    Raises:
        InputError: not a vmlinux.
        BenchError: a vmlinux without sites.

    """
    offsets = _lasting(Kernel(vmlinux))
    if len(offsets) <= count:
        return tuple(int(offset) for offset in offsets)
    spread = np.linspace(0, len(offsets) - 1, count // 2).astype(np.int64).tolist()
    candidates = sorted(set(range(len(offsets))) - set(spread))
    chosen = spread + random.Random(seed).sample(candidates, count - len(set(spread)))
    return tuple(int(offset) for offset in offsets[sorted(set(chosen))])


def _lasting(kernel: Kernel) -> U64:
    """Return the offsets of the sites outside of init memory, which the kernel gives away when it has booted."""
    stext, begin, end = (kernel.symbols.find(name) for name in ("_stext", "__init_begin", "__init_end"))
    if kernel.sites is None or not len(kernel.sites) or stext is None:
        raise BenchError(f"{kernel.path}: has no ftrace sites to read back")
    first = np.sort(kernel.sites.first)
    lasting = first >= np.uint64(stext.vaddr)
    if begin is not None and end is not None:
        lasting &= (first < np.uint64(begin.vaddr)) | (first >= np.uint64(end.vaddr))
    return first[lasting] - np.uint64(stext.vaddr)
