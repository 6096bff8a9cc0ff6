"""The bytes of a trace that a decoder could not decode: before its first A-Sync, after an error, after its end."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Final

from prologue.trace.coresight.frames import count_sources, count_to_sync
from prologue.trace.coresight.library import ALIGNED
from prologue.trace.coresight.process import ByteCounts, DecodeJob, TracePart
from prologue.trace.ranges import NO_CPU, Tally
from prologue.trace.readers.opencsd_lines import BANNER

_A_SYNC: Final = 12  # bytes
_FRAME: Final = 16
_START: Final = 64
"""Bytes that a decoder may need before its first element: A-Sync, Trace Info, an address with context, in frames."""
_NO_SYNC: Final = re.compile(rb"^Idx:(\d{1,19}); ID:([0-9a-f]{1,2}); OCSD_GEN_TRC_ELEM_NO_SYNC\(", re.MULTILINE)
_RUN: Final = re.compile(b"(?=%s)" % re.escape(BANNER))


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


class TextCoverage:
    """The coverage of a text of trc_pkt_lister, by the offsets in it: from NO_SYNC to the next element of that ID."""

    def __init__(self, account: Tally) -> None:
        self._account = account
        self._open: dict[bytes, int] = {}  # by trace ID: where its decoder lost synchronisation
        self._ends: dict[bytes, int] = {}
        self._lost: Counter[bytes] = Counter()

    def take(self, block: bytes) -> None:
        """Take a block of whole lines; the text may hold several runs."""
        for run in _RUN.split(block):
            if run.startswith(BANNER):
                self.end()
            for name in list(self._open):
                self._close(run, 0, name)
            for match in _NO_SYNC.finditer(run):
                self._ends.setdefault(match[2], 0)
                if match[2] not in self._open:
                    self._open[match[2]] = int(match[1])
                    self._close(run, match.end(), match[2])
            for name in self._ends:
                index = run[: max(run.rfind(b"; ID:%s; OCSD_GEN" % name), 0)].rpartition(b"Idx:")[2]
                self._ends[name] = int(index) if index.isdigit() and len(index) < 20 else self._ends[name]

    def _close(self, run: bytes, at: int, name: bytes) -> None:
        match = re.compile(
            rb"^Idx:(\d{1,19}); ID:%s; OCSD_GEN_TRC_ELEM_(?!NO_SYNC|EO_TRACE)" % name, re.MULTILINE
        ).search(run, at)
        if match:
            self._count(name, int(match[1]) - self._open.pop(name))

    def _count(self, name: bytes, size: int) -> None:
        self._lost[name] += size if size > _START else 0

    def end(self) -> None:
        """Count a run that came to its end."""
        for name, start in self._open.items():
            self._count(name, self._ends.get(name, start) - start)
        for name, size in self._ends.items():
            self._account.count_bytes(int(name, 16), size, min(self._lost[name], size))
        self._open.clear()
        self._ends.clear()
        self._lost.clear()
