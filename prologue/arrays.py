"""Types of the arrays that bulk work is done on (little-endian in files, native in memory), and sets as sorted arrays.

numpy's own set functions hash since 2.3, and load numpy.ma: both take longer than sorting addresses. These come nearly
sorted: the stable sort, which looks for what is in order, takes a third of the default one's time, or less.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

Integers = TypeVar("Integers", U64, I64)


def sorted_unique(values: Integers) -> Integers:
    """Return each value once, ascending; shape (n,) in, (m,) out."""
    ordered = np.sort(values, kind="stable")
    fresh = np.ones(len(ordered), np.bool_)
    fresh[1:] = ordered[1:] != ordered[:-1]
    return ordered[fresh]


def among(values: Integers, others: Integers) -> Bool:
    """Return which values are among the others, whose order does not matter; shape of ``values``."""
    return among_sorted(values, np.sort(others, kind="stable"))


def among_sorted(values: Integers, ordered: Integers) -> Bool:
    """Return which values are among the others, which ascend; shape of ``values``."""
    if not len(ordered):
        return np.zeros(len(values), np.bool_)
    place = np.searchsorted(ordered, values)
    is_member: Bool = ordered[np.minimum(place, len(ordered) - 1)] == values
    return is_member


def runs_of(ascending: Integers, step: int = 1) -> list[Integers]:
    """Split values where the next is more than ``step`` greater; shape (n,) in."""
    return np.split(ascending, np.flatnonzero(np.diff(ascending) > step) + 1) if len(ascending) else []


def spans_of(mask: Bool) -> list[tuple[int, int]]:
    """Return the first index and the one after the last of each run of true values; shape (n,) in."""
    edges = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))
