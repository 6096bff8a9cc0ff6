"""Makes ranges of what OpenCSD's library finds, with the rules by which its text is read (``opencsd``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, Bool
from prologue.live.memory.ranges import KERNEL_HALF
from prologue.trace.coresight.process import DecoderText, Elements, Failed
from prologue.trace.ranges import (
    AARCH32,
    EXCEPTION,
    GAP,
    LONGEST,
    LOST,
    NO_CPU,
    NO_LEVEL,
    NO_VMID,
    OTHER_WORLD,
    RETURN,
    UNSURE,
    BadImage,
    BatchNames,
    Onward,
    Tally,
    TracedTask,
    TraceRanges,
    new_ranges,
)
from prologue.trace.readers.opencsd_lines import BREAKS, read_error
from prologue.trace.readers.return_stack import ReturnStack

# ocsd_gen_trc_elem_t
(_UNKNOWN, _NO_SYNC, _TRACE_ON, _END, _CONTEXT, _RANGE, _NO_PATH, _NO_MEMORY, _NO_ADDRESS, _EXCEPTION, _RETURN,
 _TIMESTAMP) = range(12)  # fmt: skip
_TRANSACTION: Final = 16
_BREAKS: Final = {
    _UNKNOWN: b"UNKNOWN", _NO_SYNC: b"NO_SYNC", _TRACE_ON: b"TRACE_ON", _END: b"EO_TRACE", _NO_PATH: b"I_RANGE_NOPATH",
    _NO_MEMORY: b"ADDR_NACC", _NO_ADDRESS: b"ADDR_UNKNOWN",
}  # fmt: skip
_OVERFLOW: Final = 1  # trace_on_reason_t
_BEGUN: Final = (1, 2)  # unsync_info_t: the decoder was made, or reset
_BAD_IMAGE: Final = 6  # unsync_info_t, from 1.5.4 on; before, it was another one
_ROLLED_BACK: Final = 3  # trace_memtrans_t
_A64: Final = 2  # ocsd_isa
_WORDS, _HALVES = (0, 2), (1, 3)  # A32 and A64; T32 and ThumbEE
_LINK, _ERET = 1, 3  # ocsd_instr_subtype
_FIRST, _UNKNOWN_CODE = (_NO_SYNC, _TRACE_ON, _END), (_UNKNOWN, _NO_PATH, _NO_MEMORY, _NO_ADDRESS)
_NONSECURE: Final = 1  # ocsd_sec_level
_HAS_CONTEXT, _HAS_VMID, _HAS_LEVEL = 2, 4, 8
_BRANCH, _INDIRECT = 1, 2  # ocsd_instr_type
_EXECUTED: Final = 1  # of flags
_HIGHEST_VMID: Final = (1 << 31) - 1
_OF_IMAGE: Final = frozenset(("OCSD_ERR_BAD_DECODE_IMAGE", "OCSD_ERR_INVALID_OPCODE"))
_MOST_KINDS: Final = 64


@dataclass(slots=True, kw_only=True)
class _Source:
    """What holds for the next range of a CPU; ``last`` is the last range with its element, if nothing came after."""

    flags: int = GAP
    time: int = 0
    task: int = 0
    vmid: int = NO_VMID
    level: int = NO_LEVEL
    world: int = 0
    last: tuple[int, int, int, int, int] | None = None  # start, end, flags, kind of its last instruction, its flags
    failed: bool = False
    calls: ReturnStack | None = None  # from code on that the decoder does not know


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementNaming:
    """How what the trace says becomes what ranges have.

    ``cpu`` is that of a trace ID, ``time`` makes ns of ticks, ``task`` names a process by its number and a time.
    ``process_in_vmid``: what stands as VMID is CONTEXTIDR_EL2, at every level. ``checks_images``: the library is one
    that reports what its image cannot be. ``return_stack``: trace units leave out addresses that theirs foretells.
    """

    cpu: Callable[[int], int]
    time: Callable[[int], int]
    task: Callable[[int, int], TracedTask]
    process_in_vmid: bool = False
    checks_images: bool = False
    return_stack: bool = False


class ElementReader:
    """Keeps the state of each CPU between blocks of elements."""

    def __init__(self, account: Tally, naming: ElementNaming) -> None:
        self._account, self.naming = account, naming
        self._sources: dict[int, _Source] = {}
        self._kinds: set[str] = set()
        self.names = BatchNames()

    def begin(self) -> None:
        """A recording begins: what ran before it is not known."""
        for source in self._sources.values():
            source.flags, source.last, source.failed, source.calls = GAP, None, False, None

    def failed(self, failure: Failed) -> None:
        """Decoding of a recording ended in the middle: a gap on every CPU of it."""
        self._named("recordings whose decoding ended early", f": {failure.why}", "recording whose decoding ended early")
        self._forget()

    def text(self, text: DecoderText) -> None:
        """Use a message of the library."""
        error = read_error(text.line.strip())
        if error is None:
            return
        source = None if error.source is None else self._sources.get(self.naming.cpu(error.source))
        line = f"{error.name}, {error.message}" if error.message else error.name
        where = "" if error.source is None else f" on trace ID {error.source:#x}"
        self._named("errors of the decoder", f"{where}: {line}", "error of the decoder")
        if error.source is None:
            self._forget()
            return
        if error.name in _OF_IMAGE:
            self._blame(source or _Source(), self.naming.cpu(error.source), line)
        if source is not None:
            source.flags, source.last, source.failed = GAP | LOST, None, True

    def ranges(self, elements: Elements) -> TraceRanges:
        """The ranges among some elements, in their order."""
        rows = elements.rows
        is_range = rows["kind"] == _RANGE
        ranges = new_ranges(int(is_range.sum()))
        place = np.cumsum(is_range) - 1  # of each range's element: its row in ranges
        for number in np.unique(elements.ids).tolist():
            at = np.flatnonzero(elements.ids == number)
            cpu = self.naming.cpu(number)
            source = self._sources.setdefault(cpu, _Source())
            self._of_source(rows[at], ranges, place[at], source, cpu)
        return ranges if (good := ranges["end"] != 0).all() else ranges[good]

    def _of_source(self, rows: npt.NDArray[Any], ranges: TraceRanges, place: I64, source: _Source, cpu: int) -> None:
        """Fill in the ranges of one CPU, of which ``rows`` are the elements."""
        kinds = rows["kind"]
        at = np.flatnonzero(kinds == _RANGE)
        mine = place[at]
        count = len(at)
        # Each other element counts for the first range after it; row ``count`` is for ranges to come.
        flags = np.zeros(count + 1, np.uint8)
        flags[0] = source.flags
        self._apply_flags(rows, at, flags, source, cpu)
        level, vmid, task, world = self._contexts(rows, at, source)
        ranges["cpu"][mine] = cpu
        ranges["time"][mine] = self._times(rows, at, source)
        ranges["start"][mine], ranges["end"][mine] = rows["start"][at], rows["end"][at]
        ranges["level"][mine], ranges["vmid"][mine], ranges["task"][mine] = level, vmid, task
        own = np.where(rows["isa"][at] == _A64, 0, AARCH32).astype(np.uint8)
        ranges["flags"][mine] = flags[:count] | own | world
        if self.naming.return_stack:
            ranges["flags"][mine] |= self._unsure(rows, source)
        counts = rows["value"][at]
        wide = rows["end"][at] - rows["start"][at] == 4 * counts.astype(np.uint64)
        ranges["insns"][mine] = np.where((own != 0) & ~wide, counts, 0)
        source.flags = int(flags[count])
        bad = ~_can_be(rows[at])
        if bad.any():
            self._leave_out(ranges, mine, bad, source)
        if count:
            last = rows[at[-1]]
            start, end, kind, executed = last[["start", "end", "last_kind", "flags"]].tolist()
            source.last = (start, end, int(own[-1] | world[-1]), kind, executed)
        if source.flags & GAP:
            source.last = None

    @staticmethod
    def _unsure(rows: npt.NDArray[Any], source: _Source) -> npt.NDArray[np.uint8]:
        """``UNSURE`` for each range after which the decoder may have followed a wrong return, as ``opencsd`` has it.

        What packets say is not known here, so every return may have been taken from the stack.
        """
        kinds = rows["kind"]
        unsure = np.zeros(int((kinds == _RANGE).sum()), np.uint8)
        if source.calls is None and not np.isin(kinds, _UNKNOWN_CODE).any():
            return unsure
        number = 0
        columns = (rows[name].tolist() for name in ("kind", "value", "last_kind", "last_subkind", "flags"))
        for kind, value, last, subkind, flags in zip(*columns, strict=True):
            calls = source.calls
            if kind in _FIRST:
                source.calls = None
            elif kind in _UNKNOWN_CODE:
                source.calls = calls or ReturnStack()
                source.calls.lose()
            elif calls is not None and kind in (_EXCEPTION, _RETURN):
                calls.interrupt()
            elif calls is not None and kind == _TRANSACTION and value == _ROLLED_BACK:
                calls.lose()
            elif kind == _RANGE:
                if calls is not None:
                    unsure[number] = UNSURE if calls.enter() else 0
                    calls.leave(_tail(last, subkind, flags))
                number += 1
        return unsure

    def _leave_out(self, ranges: TraceRanges, mine: I64, bad: Bool, source: _Source) -> None:
        """Ranges that cannot be are damage in the library or the pipe; the next range has a gap before it."""
        self._account.add("ranges that cannot be: a gap", int(bad.sum()), singular="range that cannot be: a gap")
        ranges["end"][mine[bad]] = 0
        after = np.flatnonzero(bad) + 1
        inside = after[after < len(mine)]
        ranges["flags"][mine[inside]] |= np.uint8(GAP)
        if bad[-1]:
            source.flags |= GAP

    def _apply_flags(
        self, rows: npt.NDArray[Any], at: I64, flags: npt.NDArray[np.uint8], source: _Source, cpu: int
    ) -> None:
        """Exceptions, returns from them, and what leaves a gap; after a gap, what came before it no longer counts."""
        kinds, value = rows["kind"], rows["value"]
        undone = (kinds == _TRANSACTION) & (value == _ROLLED_BACK)
        breaks = np.flatnonzero(np.isin(kinds, list(_BREAKS)) | undone)
        events = np.flatnonzero((kinds == _EXCEPTION) | (kinds == _RETURN))
        last_break = np.full(len(flags), -1, np.int64)
        contexts = np.flatnonzero(kinds == _CONTEXT)
        of_context = (np.searchsorted(contexts, breaks) - 1).tolist()
        for place, segment, known in zip(
            breaks.tolist(), np.searchsorted(at, breaks).tolist(), of_context, strict=True
        ):
            last_break[segment] = place
            flags[segment] = GAP | self._break(rows[place], source, cpu, had_range=segment > 0)
            if kinds[place] == _NO_MEMORY and rows["start"][place] < np.uint64(KERNEL_HALF):
                self._count_process(None if known < 0 else rows[contexts[known]], source)
        segments = np.searchsorted(at, events)
        counts = events > last_break[segments]
        for kind, flag in ((_EXCEPTION, EXCEPTION), (_RETURN, RETURN)):
            flags[segments[counts & (kinds[events] == kind)]] |= np.uint8(flag)
        if len(at):
            source.failed = False

    def _count_process(self, context: npt.NDArray[Any] | None, source: _Source) -> None:
        """Count, by its name, a process of whose text the decoder has nothing; ``context`` is the last of its CPU."""
        level, task = source.level, source.task
        if context is not None:
            fields = context[["security", "level", "context", "vmid", "valid"]].tolist()
            level, _, task, _ = self._context(fields, source.time)
        if level != 0:
            return
        name = self.names.tasks[task].comm or "that the trace does not name"
        self._named("of these in processes", f": {name}", "of these in processes")

    def _break(self, row: npt.NDArray[Any], source: _Source, cpu: int, *, had_range: bool) -> int:
        """Count what leaves a gap; return ``LOST`` where data were lost."""
        kind, value = int(row["kind"]), int(row["value"])
        if kind == _TRANSACTION:
            undone = "that failed and were rolled back: a gap"
            self._account.add(f"transactions {undone}", singular="transaction that failed and was rolled back: a gap")
            return 0
        failed = source.failed and not had_range
        if kind == _NO_SYNC and value == _BAD_IMAGE and self.naming.checks_images and not failed:
            self._blame(source, cpu, "bad-program-image")
        begun = kind == _END or (kind == _NO_SYNC and value in _BEGUN)
        if not begun and not (kind == _NO_SYNC and failed):
            singular, many, rest = BREAKS[_BREAKS[kind]]
            self._account.add(many + rest, singular=singular + rest)
        source.failed = False
        return LOST if kind != _TRACE_ON or value == _OVERFLOW else 0

    def _contexts(self, rows: npt.NDArray[Any], at: I64, source: _Source) -> tuple[Any, Any, Any, Any]:
        """Level, VMID, task and world of each range: as the last context before it says."""
        contexts = np.flatnonzero(rows["kind"] == _CONTEXT)
        known = [(source.level, source.vmid, source.task, source.world)]
        fields = rows[["security", "level", "context", "vmid", "valid"]][contexts].tolist()
        times = self._times(rows, contexts, source, keep=False).tolist()
        known += [self._context(context, time) for context, time in zip(fields, times, strict=True)]
        table = np.array(known, np.int64)
        source.level, source.vmid, source.task, source.world = known[-1]
        level, vmid, task, world = table[np.searchsorted(contexts, at)].T
        # Only a VHE host's kernel runs at EL2 at a kernel's address, and its process is in CONTEXTIDR_EL2.
        host = (level == 2) & (rows["start"][at] >= np.uint64(KERNEL_HALF)) & (vmid > 0)
        if host.any() and not self.naming.process_in_vmid:
            for process in np.unique(vmid[host]).tolist():
                named = self.names.task(self.naming.task(process, source.time))
                task[host & (vmid == process)] = named
        return level.astype(np.uint8), vmid.astype(np.int32), task, world.astype(np.uint8)

    def _context(self, fields: tuple[int, int, int, int, int], time: int) -> tuple[int, int, int, int]:
        security, level, context, vmid, valid = fields
        own_vmid = vmid if valid & _HAS_VMID and vmid <= _HIGHEST_VMID else NO_VMID
        process = context if valid & _HAS_CONTEXT else 0
        if self.naming.process_in_vmid and valid & _HAS_VMID:
            process = vmid
        return (
            level if valid & _HAS_LEVEL and 0 <= level <= 3 else NO_LEVEL,
            own_vmid,
            self.names.task(self.naming.task(process, time)) if process else 0,
            0 if security == _NONSECURE else OTHER_WORLD,
        )

    def _times(self, rows: npt.NDArray[Any], at: I64, source: _Source, *, keep: bool = True) -> Any:
        """Time at each of these elements: that of the last timestamp before it."""
        stamps = np.flatnonzero(rows["kind"] == _TIMESTAMP)
        known = [source.time, *(self.naming.time(ticks) for ticks in rows["timestamp"][stamps].tolist())]
        times = np.array(known, np.uint64)[np.searchsorted(stamps, at)]
        if keep:
            source.time = known[-1]
        return times

    # reports

    def _blame(self, source: _Source, cpu: int, why: str) -> None:
        """Report that the decoder says of its image that it cannot be what ran."""
        if source.calls is not None and source.calls.may_be_astray:
            what = "of the decoder on its image, after a return that it may have followed wrongly: not judged"
            self._account.add(f"reports {what}", singular=f"report {what}")
            return
        last, onward = source.last, Onward.UNKNOWN
        if last is not None and not source.flags and last[3] != _INDIRECT:
            onward = Onward.TARGET if last[3] == _BRANCH and last[4] & _EXECUTED else Onward.NEXT
        bad = BadImage(
            why=why,
            start=last[0] if last else 0,
            end=last[1] if last else 0,
            flags=(last[2] if last else 0) & AARCH32 | source.world,
            level=source.level,
            vmid=source.vmid,
            onward=onward,
        )
        self._account.report(bad, cpu, source.time)

    def _named(self, what: str, which: str, singular: str) -> None:
        """Count something by its name, as long as not too many have one: a damaged trace has many."""
        if which not in self._kinds and len(self._kinds) >= _MOST_KINDS:
            which = ", others"
        self._kinds.add(which)
        self._account.add(what + which, singular=singular + which)

    def _forget(self) -> None:
        for source in self._sources.values():
            source.flags, source.last = GAP, None
            if source.calls is not None:
                source.calls.lose()
            source.level, source.vmid, source.task, source.world = NO_LEVEL, NO_VMID, 0, 0


def _can_be(rows: npt.NDArray[Any]) -> Bool:
    start, end = rows["start"], rows["end"]
    size = end - start
    good = (end > start) & (size < np.uint64(LONGEST))
    isa, count = rows["isa"], rows["value"].astype(np.uint64)
    words = (start & np.uint64(3) == 0) & (size == 4 * count)
    halves = (2 * count <= size) & (size <= 4 * count)
    is_possible: Bool = good & np.where(np.isin(isa, _WORDS), words, ~np.isin(isa, _HALVES) | halves)
    return is_possible


def _tail(kind: int, subkind: int, flags: int) -> bytes:
    """How a range ends, as an element's text says it: what ``ReturnStack`` reads."""
    parts = [b"E" if flags & _EXECUTED else b"N", b"iBR" if kind == _INDIRECT else b""]
    return b" ".join([*parts, {_LINK: b"b+link", _ERET: b"eret"}.get(subkind, b"")])


def plain_task(process: int, _time: int) -> TracedTask:
    """A process of which the trace says the number only."""
    return TracedTask("", process, process)


def same_number(number: int) -> int:
    """The trace ID stands for the CPU."""
    return number if number >= 0 else NO_CPU
