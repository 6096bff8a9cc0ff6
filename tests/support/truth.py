"""Ground truth beside a recording: each executed address and word, as ``trace record --save-truth`` writes them.

The recording comes from blocks and the way from one to the next, the truth from each instruction by itself: where both
agree, the recording has left nothing out and invented nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from prologue.arrays import U32, U64
from prologue.errors import InputError
from prologue.trace.readers.recording import TraceRecords, load_recording

EXECUTED: Final = np.dtype(
    [("vaddr", "<u8"), ("word", "<u4"), ("cpu", "<u2"), ("level", "u1"), ("flags", "u1")]
)  # fmt: skip
TRAPPED: Final = 1
"""The instruction began, and an exception came of it: it was not executed."""
STALE: Final = 2
"""Memory held another word when this one began: the emulator ran an old translation."""

_MAGIC: Final = b"PTTRUTH\0" + (1).to_bytes(4, "little") + EXECUTED.itemsize.to_bytes(4, "little")
_CHUNK: Final = 1 << 20  # records read at once


@dataclass(slots=True)
class TruthDifference:
    """Where a recording and the truth part: on this CPU, at this instruction of it."""

    cpu: int
    index: int
    recorded: int | None
    executed: int | None

    def __str__(self) -> str:
        said = ["nothing" if vaddr is None else f"{vaddr:#x}" for vaddr in (self.recorded, self.executed)]
        return f"CPU {self.cpu}, instruction {self.index:,}: the recording has {said[0]}, executed was {said[1]}"


@dataclass(slots=True)
class TruthAccount:
    """What a comparison saw: executed and trapped instructions, and words that memory did not hold any more."""

    executed: int = 0
    trapped: int = 0
    stale: int = 0
    differences: list[TruthDifference] = field(default_factory=list)


def read_truth(path: Path) -> Iterator[TraceRecords]:
    """Records ``EXECUTED``, in the order of the file: that of each CPU, in blocks of several CPUs.

    Raises:
        InputError: not such a file.

    """
    with path.open("rb") as stream:
        if stream.read(len(_MAGIC)) != _MAGIC:
            raise InputError("is not a file of trace record --save-truth, or of another version", path=path)
        while data := stream.read(_CHUNK * EXECUTED.itemsize):
            yield np.frombuffer(data, EXECUTED, len(data) // EXECUTED.itemsize)


def load_truth(path: Path) -> TraceRecords:
    """All records of a file."""
    return np.concatenate([np.zeros(0, EXECUTED), *read_truth(path)])


def addresses(records: TraceRecords) -> tuple[U64, npt.NDArray[np.uint8]]:
    """Address and level of each instruction of ranges: shape (sum of their counts,)."""
    count = records["count"].astype(np.int64)
    first = np.repeat(np.cumsum(count) - count, count)
    offset = (np.arange(len(first)) - first).astype(np.uint64) * np.uint64(4)
    return np.repeat(records["start"], count) + offset, np.repeat(records["level"], count)


def compare(recording: Path, truth: Path) -> TruthAccount:
    """Compare each executed address and its level with the recording, CPU by CPU.

    Both are read whole: some 40 bytes for each instruction.

    Raises:
        InputError: not such files.

    """
    _, records = load_recording(recording)
    executed = load_truth(truth)
    account = TruthAccount(
        trapped=int((executed["flags"] & TRAPPED > 0).sum()), stale=int((executed["flags"] & STALE > 0).sum())
    )
    executed = executed[executed["flags"] & TRAPPED == 0]
    account.executed = len(executed)
    for cpu in np.union1d(records["cpu"], executed["cpu"]).tolist():
        vaddrs, levels = addresses(records[records["cpu"] == cpu])
        own = executed[executed["cpu"] == cpu]
        account.differences += _first_difference(cpu, (vaddrs, levels), own)
    return account


def _first_difference(
    cpu: int, recorded: tuple[U64, npt.NDArray[np.uint8]], own: TraceRecords
) -> list[TruthDifference]:  # fmt: skip
    vaddrs, levels = recorded
    shared = min(len(vaddrs), len(own))
    wrong = np.flatnonzero((vaddrs[:shared] != own["vaddr"][:shared]) | (levels[:shared] != own["level"][:shared]))
    if not len(wrong) and len(vaddrs) == len(own):
        return []
    at = int(wrong[0]) if len(wrong) else shared
    have = [int(values[at]) if at < len(values) else None for values in (vaddrs, own["vaddr"])]
    return [TruthDifference(cpu, at, *have)]


@dataclass(slots=True)
class WordCounts:
    """Executed words against an image: those in its text; those that it has otherwise; those outside of it."""

    inside: int
    outside: int
    wrong: int
    wrong_addresses: U64  # distinct, run-time


def compare_words(truth: Path, sections: list[tuple[int, U32]], levels: tuple[int, ...]) -> WordCounts:
    """Compare each executed word with an image's.

    Args:
        truth: the file.
        sections: run-time address and words of each piece of text.
        levels: exception levels that execute that image; what others execute is not counted at all.

    Raises:
        InputError: not such a file.

    """
    inside = outside = wrong = 0
    addresses_wrong: list[U64] = []
    for chunk in read_truth(truth):
        rows = chunk[np.isin(chunk["level"], levels) & (chunk["flags"] & TRAPPED == 0)]
        found = np.zeros(len(rows), np.bool_)
        for start, words in sections:
            index = (rows["vaddr"] - np.uint64(start & (1 << 64) - 1)) // np.uint64(4)
            mine = np.flatnonzero(index < len(words))
            found[mine] = True
            bad = mine[words[index[mine].astype(np.int64)] != rows["word"][mine]]
            wrong += len(bad)
            addresses_wrong.append(np.unique(rows["vaddr"][bad]))
        inside += int(found.sum())
        outside += int((~found).sum())
    distinct = np.unique(np.concatenate(addresses_wrong)) if addresses_wrong else np.zeros(0, np.uint64)
    return WordCounts(inside, outside, wrong, distinct)
