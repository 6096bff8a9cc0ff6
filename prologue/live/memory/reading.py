"""Reads ranges of which some pages may be missing, and text that the kernel may be changing meanwhile."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from prologue.live.memory.base import Memory
from prologue.live.memory.ranges import PAGE, Range, UnmappedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prologue.arrays import Bool

_TRIES: Final = 4  # further readings until words are called unstable


class StableReading(NamedTuple):
    """A range as it was read; ``data`` has zeros where ``present``, of shape (size // 4,), says memory has nothing.

    /proc/kcore and copies of it give zeros for what is not mapped, and say that it is there. ``unstable`` are addresses
    of words that differed between the last two readings.
    """

    data: bytes
    present: Bool
    unstable: tuple[int, ...]


def read_until_stable(
    memory: Memory,
    ranges: Sequence[Range],
    between: Callable[[], None] | None = None,
    matters: Sequence[Bool] | None = None,
) -> list[StableReading]:
    """Read ranges, sizes multiples of 4; and if the kernel runs, those again that still change.

    ``between`` is called before each further reading, which then is of all ranges: what it reads belongs to them,
    unless some of their words are unstable. ``matters`` says of each word, shape (size // 4,), whether it is asked for
    again; all words are, if it is None.

    Raises:
        InputError: memory cannot be read at all.

    """
    last, present = _read_present(memory, ranges)
    different = [np.zeros(0, np.int64) for _ in ranges]
    todo = list(range(len(ranges)))
    for _ in range(_TRIES if memory.live else 0):
        if between is not None:
            between()
        again, present_again = _read_present(memory, [ranges[k] for k in todo])
        for k, data, has in zip(todo, again, present_again, strict=True):
            differ = (np.frombuffer(last[k], "<u4") != np.frombuffer(data, "<u4")) | (present[k] != has)
            different[k] = np.flatnonzero(differ if matters is None else differ & matters[k])
            last[k], present[k] = data, has
        changing = [k for k in todo if len(different[k])]
        if not changing:
            break
        todo = changing if between is None else todo
    return [
        StableReading(data, has, tuple(piece.vaddr + 4 * k for k in words.tolist()))
        for piece, data, has, words in zip(ranges, last, present, different, strict=True)
    ]


def _read_present(memory: Memory, ranges: Sequence[Range]) -> tuple[list[bytes], list[Bool]]:
    """Read the memory of each range, zeros for what is missing, and which words are there."""
    try:
        return memory.read_many(ranges), [np.ones(piece.size // 4, np.bool_) for piece in ranges]
    except UnmappedError:
        pass
    data = [bytearray(piece.size) for piece in ranges]
    present = [np.zeros(piece.size // 4, np.bool_) for piece in ranges]
    for piece, content, has in zip(ranges, data, present, strict=True):
        _read_parts(memory, piece, content, has)
    return [bytes(content) for content in data], present


def _read_parts(memory: Memory, piece: Range, data: bytearray, present: Bool) -> None:
    """Read the pages of a range of which some may be missing, and of others a part: a core may end anywhere."""
    if _read_part(memory, piece, piece, data, present):
        return
    pages = pairwise([piece.vaddr, *range((piece.vaddr // PAGE + 1) * PAGE, piece.end, PAGE), piece.end])
    todo = [Range(start, stop - start) for start, stop in pages]
    while todo:
        part = todo.pop()
        if _read_part(memory, part, piece, data, present) or part.size <= 4:
            continue
        # Of a page that is missing as a whole, one look at each end says so.
        if any(read_if_there(memory, vaddr, 4) for vaddr in (part.vaddr, part.end - 4)):
            half = part.size // 8 * 4
            todo += [Range(part.vaddr, half), Range(part.vaddr + half, part.size - half)]


def _read_part(memory: Memory, part: Range, piece: Range, data: bytearray, present: Bool) -> bool:
    content = read_if_there(memory, *part)
    if content is None:
        return False
    at = part.vaddr - piece.vaddr
    data[at : at + part.size] = content
    present[at // 4 : (at + part.size) // 4] = True
    return True


def read_if_there(memory: Memory, vaddr: int, size: int) -> bytes | None:
    """Read bytes; None unless memory has all of them."""
    with suppress(UnmappedError):
        return memory.read(vaddr, size)
    return None


def zero_pages(data: bytes, vaddr: int) -> Bool:
    """Return which pages of the range have no byte but zeros."""
    lead = vaddr % PAGE
    padded = np.zeros(-(-(lead + len(data)) // PAGE) * PAGE, np.uint8)
    padded[lead : lead + len(data)] = np.frombuffer(data, np.uint8)
    return np.logical_not(padded.reshape(-1, PAGE).any(axis=1))
