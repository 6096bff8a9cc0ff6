"""Interned keys: a number for each distinct key, for millions of rows at once."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U64, Bool
from prologue.errors import InternalError

_FIRST: Final = 16  # bits of a number of slots
_AT_ONCE: Final = 1 << 16
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: neighbours go to distant slots
_MIX: Final = (np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9))


class Interner:
    """A number for each distinct 64-bit key, from 0 on in the order of first sight.

    A hash table with open addressing: a key is in the first free slot from its own on. Each step looks up all rows that
    are left, and at most half of the slots are taken, so there are few steps.
    """

    def __init__(self) -> None:
        self._count = 0
        self._make(_FIRST)

    def __len__(self) -> int:
        return self._count

    def numbers(self, keys: U64) -> tuple[I64, I64]:
        """Return the number of each key, and the first row of each key that was never seen before.

        Returns:
            Numbers, shape of ``keys``; rows, ascending with their new numbers.

        """
        numbers_of = self._find(keys)
        misses = np.flatnonzero(numbers_of < 0)
        if not len(misses):
            return numbers_of, misses
        distinct, first, inverse = np.unique(keys[misses], return_index=True, return_inverse=True)
        order = np.argsort(first)
        numbers = np.empty(len(distinct), np.int64)
        numbers[order] = np.arange(self._count, self._count + len(distinct))
        numbers_of[misses] = numbers[inverse]
        self._add(distinct, numbers)
        return numbers_of, misses[first[order]]

    def _make(self, bits: int) -> None:
        self._shift = np.uint64(64 - bits)
        self._mask = (1 << bits) - 1
        self._keys = np.zeros(1 << bits, np.uint64)
        self._values = np.full(1 << bits, -1, np.int64)  # -1: a free slot

    def _slots(self, keys: U64) -> I64:
        return (keys * _SPREAD >> self._shift).view(np.int64)

    def _find(self, keys: U64) -> I64:
        """Look up the number of each key; -1 for new keys."""
        slots = self._slots(keys)
        candidates = self._values[slots]
        collided = np.flatnonzero((self._keys[slots] != keys) & (candidates >= 0))
        slots, wanted = slots[collided], keys[collided]
        while len(collided):
            slots = slots + 1 & self._mask
            candidates[collided] = values = self._values[slots]
            more = (self._keys[slots] != wanted) & (values >= 0)
            collided, slots, wanted = collided[more], slots[more], wanted[more]
        return candidates

    def _add(self, keys: U64, numbers: I64) -> None:
        """Add new keys, each once."""
        self._count += len(keys)
        if 2 * self._count > len(self._keys):
            filled = self._values >= 0
            old = self._keys[filled], self._values[filled]
            self._make((2 * self._count).bit_length())
            self._place(*old)
        self._place(keys, numbers)

    def _place(self, keys: U64, numbers: I64) -> None:
        slots = self._slots(keys)
        while len(keys):
            free = self._values[slots] < 0
            self._values[slots[free]] = numbers[free]  # of several keys with one slot, one gets it
            placed = self._values[slots] == numbers
            self._keys[slots[placed]] = keys[placed]
            keys, numbers, slots = keys[~placed], numbers[~placed], slots[~placed] + 1 & self._mask


class DistinctRows:
    """The distinct rows of some columns, in ``table``: its first fields are these columns, all others the owner's."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._interner = Interner()
        self.table: npt.NDArray[Any] = np.zeros(0, dtype)

    def numbers(self, *columns: npt.NDArray[Any]) -> I64:
        """Return the row in ``table`` of each row of the columns; new rows are added at its end.

        Raises:
            InternalError: two rows have one key.

        """
        numbers, fresh = self._interner.numbers(mix_rows(*columns))
        names = (self.table.dtype.names or ())[: len(columns)]
        if len(fresh):
            new = np.zeros(len(fresh), self.table.dtype)
            for name, column in zip(names, columns, strict=True):
                new[name] = column[fresh]
            self.table = np.concatenate([self.table, new])
        for name, column in zip(names, columns, strict=True):
            if (self.table[name][numbers] != column).any():
                raise InternalError("two different rows have one key")
        return numbers


class RunCounts:
    """Counts of numbers from 0 on."""

    def __init__(self) -> None:
        self._counts = np.zeros(0, np.int64)
        self._waiting: list[I64] = []
        self._size = 0

    def add(self, numbers: I64) -> None:
        """Count numbers, 0 or more each."""
        self._waiting.append(numbers)
        self._size += len(numbers)
        if self._size > max(len(self._counts), _AT_ONCE):  # a sum over all counts is worth it
            self._settle()

    def up_to(self, count: int) -> I64:
        """Return the counts of the numbers below ``count``, which has to be above all that were counted."""
        self._settle()
        grown = np.zeros(count, np.int64)
        grown[: len(self._counts)] = self._counts
        return grown

    def _settle(self) -> None:
        if self._waiting:
            new = np.bincount(np.concatenate(self._waiting), minlength=len(self._counts))
            new[: len(self._counts)] += self._counts
            self._counts, self._waiting, self._size = new, [], 0


def mix_rows(*columns: npt.NDArray[Any]) -> U64:
    """Mix several columns into a key for each row. Different rows may get one key (once in 2^64): compare the rest."""
    key = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        key = (key ^ column.astype(np.uint64, copy=False)) * _MIX[0]
        key ^= key >> np.uint64(32)
        key *= _MIX[1]
    return key


def run_starts(*columns: npt.NDArray[np.uint64] | I64) -> Bool:
    """Find rows that differ from the one before, as the first one does; shape (n,)."""
    fresh = np.zeros(len(columns[0]), np.bool_)
    fresh[:1] = True
    for column in columns:
        fresh[1:] |= column[1:] != column[:-1]
    return fresh


def by_lane(lanes: npt.NDArray[np.int64] | npt.NDArray[np.int32]) -> I64:
    """Return the indices of rows, lane after lane, each in its own order."""
    if not len(lanes) or (lanes == lanes[0]).all():
        return np.arange(len(lanes))
    low, high = int(lanes.min()), int(lanes.max())
    small = low >= -(1 << 15) and high < 1 << 15  # numpy sorts these by radix
    return np.argsort(lanes.astype(np.int16) if small else lanes, kind="stable")
