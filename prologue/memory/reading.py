"""Reads ranges of which some pages may be missing, and text that the kernel may be changing meanwhile."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from prologue.memory.base import PAGE, Memory, Range, Rereads, SecondReading, UnmappedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prologue.arrays import Bool

_TRIES: Final = 4  # further readings until words are called unstable


class Steady(NamedTuple):
    """A range as it was read; ``data`` has zeros where ``absent``, of shape (pages,), says that nothing is.

    Pages are those that the range touches, the first and the last perhaps in part. /proc/kcore gives zeros for what is
    not mapped, so a page of zeros counts as absent, too. ``unstable`` are addresses of words that differed between the
    last two readings.
    """

    data: bytes
    absent: Bool
    unstable: tuple[int, ...]


def read_twice(
    memory: Memory,
    ranges: Sequence[Range],
    between: Callable[[], None] | None = None,
    matters: Sequence[Bool] | None = None,
) -> list[Steady]:
    """Read ranges, sizes multiples of 4; and if the kernel runs, those again that still change.

    ``between`` is called before each further reading, which then is of all ranges: what it reads belongs to them,
    unless some of their words are unstable. ``matters`` says of each word, shape (size // 4,), whether it is asked for
    again; all words are, if it is None.

    Raises:
        InputError: memory cannot be read at all.

    """
    last = _read_present(memory, ranges)
    different = [np.zeros(0, np.int64) for _ in ranges]
    todo = list(range(len(ranges)))
    for _ in range(_TRIES if memory.live else 0):
        if between is not None:
            between()
        again = _read_again(memory, [ranges[k] for k in todo], [last[k] for k in todo])
        for k, (data, _) in zip(todo, again, strict=True):
            differ = np.frombuffer(last[k], "<u4") != np.frombuffer(data, "<u4")
            different[k] = np.flatnonzero(differ if matters is None else differ & matters[k])
            last[k] = data
        changing = [k for k, (_, moved) in zip(todo, again, strict=True) if moved or len(different[k])]
        if not changing:
            break
        todo = changing if between is None else todo
    return [
        Steady(data, zero_pages(data, piece.vaddr), tuple(piece.vaddr + 4 * k for k in words.tolist()))
        for piece, data, words in zip(ranges, last, different, strict=True)
    ]


def _read_again(memory: Memory, ranges: Sequence[Range], before: Sequence[bytes]) -> list[SecondReading]:
    if isinstance(memory, Rereads):
        try:
            return memory.read_again(ranges, before)
        except UnmappedError:
            pass
    return [SecondReading(data, moved=False) for data in _read_present(memory, ranges)]


def _read_present(memory: Memory, ranges: Sequence[Range]) -> list[bytes]:
    try:
        return memory.read_many(ranges)
    except UnmappedError:
        return [_read_pages(memory, piece) for piece in ranges]


def _read_pages(memory: Memory, piece: Range) -> bytes:
    """A range of which some pages may be missing; zeros for those."""
    try:
        return memory.read(*piece)
    except UnmappedError:
        pass
    data = bytearray(piece.size)
    for start, stop in pairwise([piece.vaddr, *range((piece.vaddr // PAGE + 1) * PAGE, piece.end, PAGE), piece.end]):
        try:
            data[start - piece.vaddr : stop - piece.vaddr] = memory.read(start, stop - start)
        except UnmappedError:
            continue
    return bytes(data)


def zero_pages(data: bytes, vaddr: int) -> Bool:
    """Which pages of the range have no byte but zeros."""
    lead = vaddr % PAGE
    padded = np.zeros(-(-(lead + len(data)) // PAGE) * PAGE, np.uint8)
    padded[lead : lead + len(data)] = np.frombuffer(data, np.uint8)
    return np.logical_not(padded.reshape(-1, PAGE).any(axis=1))
