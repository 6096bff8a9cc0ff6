"""Distinct ranges: each is met millions of times and looked at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64
from prologue.errors import InternalError
from prologue.trace.assign import Kernels
from prologue.trace.form import Batch
from prologue.trace.intern import Interner, mixed

KNOWN: Final = np.dtype([("start", "<u8"), ("end", "<u8"), ("program", "<i4"), ("piece", "<i4")])
"""A distinct range: its program's row, or what ``assign`` has instead, and the piece of text it is in; -1 if none."""
Thing = TypeVar("Thing")


class KnownRanges:
    """Gives the ranges of a trace numbers."""

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels
        self._programs = kernels.programs
        self._interner = Interner()
        self.table: npt.NDArray[Any] = np.zeros(0, KNOWN)

    def numbers(self, batch: Batch) -> I64:
        """The row in ``table`` of each range; new ones are added at its end."""
        ranges, program = batch.ranges, self.kernels.rows(batch)
        keys = mixed(ranges["start"], ranges["end"], program.view(np.uint64))
        numbers, fresh = self._interner.numbers(keys)
        if len(fresh):
            new = np.zeros(len(fresh), KNOWN)
            new["start"], new["end"], new["program"] = ranges["start"][fresh], ranges["end"][fresh], program[fresh]
            new["piece"] = -1
            for row, one in enumerate(self._programs):
                mine = new["program"] == row
                new["piece"][mine] = one.piece_of(new["start"][mine], new["end"][mine])
            self.table = np.concatenate([self.table, new])
        same = self.table[numbers]
        alike = (same["start"] == ranges["start"]) & (same["end"] == ranges["end"]) & (same["program"] == program)
        if not alike.all():
            raise InternalError("two ranges have one key")
        return numbers


class Each(Generic[Thing]):
    """One thing for each distinct range, made when it is first wanted."""

    def __init__(self, make: Callable[[int], Thing]) -> None:
        self._make = make
        self._have: npt.NDArray[np.object_] = np.empty(0, object)

    def up_to(self, count: int) -> npt.NDArray[np.object_]:
        """The things of the first ``count`` ranges."""
        have = len(self._have)
        if have < count:
            new = np.empty(count - have, object)
            for number in range(have, count):
                new[number - have] = self._make(number)
            self._have = np.concatenate([self._have, new])
        return self._have
