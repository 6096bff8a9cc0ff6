"""All text of a file as one array of words, and where control goes from each of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U32, U64
from prologue.insn.decode import BL, matches
from prologue.sites.binary import Binary


class Flow:
    """All text sections side by side, a zero word (UDF) after each, so that a position is one index."""

    def __init__(self, binary: Binary) -> None:
        sections = [s for s in binary.text.text_sections if s.size >= 4]
        self._starts = np.array([s.addr for s in sections], np.uint64)
        sizes = np.array([s.size // 4 for s in sections], np.int64)
        self._bases = np.concatenate([[0], np.cumsum(sizes + 1)]).astype(np.int64)
        self.words: U32 = np.zeros(int(self._bases[-1]), np.uint32)
        # int32 does: no text has 2**31 instructions. -1 is "nowhere here".
        self.successor: npt.NDArray[np.int32] = np.full(len(self.words), -1, np.int32)
        """Where each branch goes, calls left out: a path goes on after a BL, if at all."""
        jumping = [np.zeros(0, np.int64)]
        for section, base, size in zip(sections, self._bases.tolist(), sizes.tolist(), strict=False):
            self.words[base : base + size] = binary.text.view(section, "<u4")
        for section, base in zip(sections, self._bases.tolist(), strict=False):
            index, target = binary.branches(section)
            jumps = ~matches(self.words[base + index], BL)
            jumping.append(base + index[jumps])
            self.successor[jumping[-1]] = self.positions(target[jumps])
        self.jumps: npt.NDArray[np.int32] = np.concatenate(jumping).astype(np.int32)
        """Positions of these branches; some go to where there is no text."""

    def positions(self, vaddrs: U64) -> I64:
        """Index of each address, -1 outside of the text."""
        result = np.full(len(vaddrs), -1, np.int64)
        sizes = np.diff(self._bases) - 1
        todo: slice | I64 = slice(None)
        for part in np.argsort(-sizes).tolist():  # most are in the largest section
            offset = vaddrs[todo] - self._starts[part]
            inside = offset < np.uint64(4 * sizes[part])
            position = self._bases[part] + (offset >> np.uint64(2)).view(np.int64)
            result[todo] = np.where(inside, position, -1)
            todo = np.flatnonzero(~inside) if isinstance(todo, slice) else todo[~inside]
        return result

    def vaddrs(self, positions: I64) -> U64:
        """Address of each position."""
        part = np.searchsorted(self._bases, positions, side="right") - 1
        result: U64 = self._starts[part] + (4 * (positions - self._bases[part])).astype(np.uint64)
        return result
