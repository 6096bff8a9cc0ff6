"""All text of a file as one array of words, and where control goes from each of them."""

from __future__ import annotations

from typing import Final

import numpy as np

from prologue.arrays import I32, I64, U32, U64
from prologue.insn.a64 import NOP
from prologue.insn.decode import BL, B, matches
from prologue.kernel.binary import Binary
from prologue.kernel.tables import jump_labels

_CHUNK: Final = 1 << 15  # branches looked at at once: what fits into a cache is much faster


class Flow:
    """All text sections side by side, a zero word (UDF) after each, so that a position is one index.

    Positions are kept as int32: no text has 2**31 instructions.
    """

    def __init__(self, binary: Binary) -> None:
        sections = [s for s in binary.text.text_map.sections if s.size >= 4]
        self._starts = np.array([s.addr for s in sections], np.uint64)
        sizes = np.array([s.size // 4 for s in sections], np.int64)
        self._sizes = sizes
        self._bases = np.concatenate([[0], np.cumsum(sizes + 1)]).astype(np.int64)
        self.words: U32 = np.zeros(int(self._bases[-1]), np.uint32)
        jumps, targets = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
        for section, base, size in zip(sections, self._bases.tolist(), sizes.tolist(), strict=False):
            words = self.words[base : base + size]
            words[:] = binary.text.view(section, "<u4")
            index, target = binary.branches(section)
            for start in range(0, len(index), _CHUNK):
                source = index[start : start + _CHUNK]
                jumping = np.flatnonzero(~matches(words[source], BL))
                jumps.append((base + source[jumping]).astype(np.int32))
                targets.append(self.positions(target[start : start + _CHUNK][jumping]).astype(np.int32))
        labels = jump_labels(binary)
        places, goals = self.positions(labels.code), self.positions(labels.target)
        switched = (places >= 0) & ((self.words[places] == NOP) | matches(self.words[places], B))
        jumps.append(places[switched].astype(np.int32))
        targets.append(goals[switched].astype(np.int32))
        self.words[places[switched]] = NOP  # it goes on, too, whatever stands there now
        self.jumps: I32 = np.concatenate(jumps)
        """Positions of direct branches and jump labels, ascending; not of calls: a path goes on after BL, if at all."""
        self.targets: I32 = np.concatenate(targets)
        """Where each of them goes; -1 if it leads out of all text."""
        order = np.argsort(self.jumps, kind="stable")  # the last are jump labels, and branches that relocations send on
        self.jumps, self.targets = self.jumps[order], self.targets[order]

    def after_jump(self, positions: I64) -> I64:
        """Return the position after the direct branch at each position; -1 for calls, other words, targets elsewhere.

        Of several relocations at one place, which only a damaged module has, the last one counts.
        """
        if not len(self.jumps):
            return np.full(len(positions), -1, np.int64)
        wanted = positions.astype(np.int32)
        place = np.maximum(np.searchsorted(self.jumps, wanted, side="right") - 1, 0)
        return np.where(self.jumps[place] == wanted, self.targets[place], -1).astype(np.int64)

    def after_jump_at(self, position: int) -> int:
        """Return what ``after_jump`` returns, for one position: an array of one takes ten times as long."""
        place = int(self.jumps.searchsorted(np.int32(position), side="right")) - 1
        return int(self.targets[place]) if place >= 0 and self.jumps[place] == position else -1

    def positions(self, vaddrs: U64) -> I64:
        """Return the index of each address, -1 outside of the text."""
        if not len(self._starts):
            return np.full(len(vaddrs), -1, np.int64)
        # An address below all sections gets the last one, and an offset that wraps.
        part = np.searchsorted(self._starts, vaddrs, side="right") - 1
        offset = (vaddrs - self._starts[part] >> np.uint64(2)).view(np.int64)
        return np.where(offset < self._sizes[part], self._bases[part] + offset, -1)

    def vaddrs(self, positions: I64) -> U64:
        """Return the address of each position."""
        part = np.searchsorted(self._bases, positions, side="right") - 1
        result: U64 = self._starts[part] + (4 * (positions - self._bases[part])).astype(np.uint64)
        return result
