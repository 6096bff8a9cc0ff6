"""The bytes of a trace that a decoder could not decode: before its first A-Sync, after an error, after its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prologue.trace.coresight.frames import count_sources, count_to_sync
from prologue.trace.coresight.library import ALIGNED
from prologue.trace.coresight.process import ByteCounts, DecodeJob, TracePart
from prologue.trace.ranges import NO_CPU, Tally

_A_SYNC: Final = 12  # bytes
_FRAME: Final = 16


class PartCoverage:
    """The coverage of one part of a job, which grows while it is decoded."""

    def __init__(self, job: DecodeJob, part: TracePart, cpu: Callable[[int], int]) -> None:
        self._path, self._part, self._cpu = job.path, part, cpu
        self._source, self._mixed = job.sources[part.source], job.mixed
        self._counts: dict[int, tuple[int, int]] = {}  # by trace ID: bytes that were decoded, of them before an A-Sync
        self._after_errors: dict[int, int] = {}
        self._lost_until: dict[int, int] = {}  # index at which the decoder of an ID may be synchronised again

    def take(self, counts: ByteCounts) -> None:
        """Take the counts up to now."""
        self._counts = {number: (total, unsynced) for number, total, unsynced in counts.rows}

    def lost_sync(self, number: int, index: int) -> None:
        """Note an error at an index of the part: the decoder of that trace ID waits for the next A-Sync."""
        framed = self._source.framed
        index = index // _FRAME * _FRAME if framed else index
        if index < self._lost_until.get(number, 0) or index >= self._part.size:
            return
        lost = self._part.size - index
        if not framed or self._is_aligned:
            lost = count_to_sync(self._path, self._part.at + index, lost, number if framed else None)
        self._after_errors[number] = self._after_errors.get(number, 0) + lost
        self._lost_until[number] = index + lost

    def end(self, account: Tally, *, failed: bool) -> dict[int, int]:
        """Count the part; ``failed``: decoding ended early, and nothing after the last counts is known.

        Returns:
            The bytes of trace IDs that no trace unit of the part's source has.

        """
        others, _ = self._counts.pop(0, (0, 0))
        scanned = self._is_aligned and (failed or others)
        sources = count_sources(self._path, self._part.at, self._part.size) if scanned else {}
        undescribed = {
            number: sources.pop(number) for number in sources.keys() - {unit.trace_id for unit in self._source.units}
        }
        totals = {number: total for number, (total, _) in self._counts.items()}
        if failed:
            totals = sources if self._source.framed else {self._source.units[0].trace_id: self._part.size}
        for number, total in totals.items():
            decoded, unsynced = self._counts.get(number, (0, 0))
            lost = total if decoded - unsynced < _A_SYNC else total - decoded + unsynced
            account.count_bytes(self._cpu(number), total, min(lost + self._after_errors.get(number, 0), total))
        if failed and not totals:
            account.count_bytes(NO_CPU, self._part.size, self._part.size)
        if not self._mixed:
            account.count_bytes(NO_CPU, sum(undescribed.values()), sum(undescribed.values()))
        return undescribed

    @property
    def _is_aligned(self) -> bool:
        return self._source.framed and self._source.flags == ALIGNED
