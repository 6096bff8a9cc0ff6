"""Numbers for distinct keys, given to millions of rows at once."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U64, Bool

_SLOTS: Final = 1 << 18
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: neighbours go to distant slots
_MIX: Final = (np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9))


class Interner:
    """Gives each distinct 64-bit key a number from 0 on, in the order of first sight.

    Most rows repeat what was seen lately, so a table of the last key of each slot answers nearly all of them; the rest
    goes through a dictionary.
    """

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._keys = np.zeros(_SLOTS, np.uint64)
        self._values = np.full(_SLOTS, -1, np.int64)

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self, keys: U64) -> tuple[I64, I64]:
        """The number of each key, and for those never seen before the row where each was first seen.

        Returns:
            Numbers, shape of ``keys``; rows, ascending with their new numbers.

        """
        slots = (keys * _SPREAD >> np.uint64(46)).astype(np.int64)
        found = np.where(self._keys[slots] == keys, self._values[slots], -1)
        misses = np.flatnonzero(found < 0)
        fresh: list[int] = []
        if len(misses):
            distinct, first, inverse = np.unique(keys[misses], return_index=True, return_inverse=True)
            values = np.empty(len(distinct), np.int64)
            for k in np.argsort(first).tolist():
                key = int(distinct[k])
                number = self._numbers.get(key)
                if number is None:
                    number = self._numbers[key] = len(self._numbers)
                    fresh.append(int(misses[first[k]]))
                values[k] = number
            found[misses] = values[inverse]
            self._keys[slots[misses]] = keys[misses]
            self._values[slots[misses]] = found[misses]
        return found, np.array(fresh, np.int64)


def mixed(*columns: npt.NDArray[np.uint64]) -> U64:
    """One key for several columns. Different rows may get one key (once in 2^64): compare what matters."""
    key = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        key = (key ^ column) * _MIX[0]
        key ^= key >> np.uint64(32)
        key *= _MIX[1]
    return key


def run_starts(*columns: npt.NDArray[np.uint64]) -> Bool:
    """Which rows differ from the one before; the first one does."""
    fresh = np.zeros(len(columns[0]), np.bool_)
    fresh[:1] = True
    for column in columns:
        fresh[1:] |= column[1:] != column[:-1]
    return fresh
