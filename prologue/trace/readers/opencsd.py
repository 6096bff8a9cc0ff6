"""The reader of text of OpenCSD's ``trc_pkt_lister -decode``: ranges that ran, with the context in trace packets.

A trace ID stands for a CPU. IDs of other sources (STM, ITM) have no ranges, and none of their elements is a gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from prologue.errors import InputError
from prologue.live.memory.ranges import KERNEL_HALF
from prologue.trace.ranges import (
    AARCH32,
    EXCEPTION,
    GAP,
    LONGEST,
    LOST,
    NO_LEVEL,
    NO_VMID,
    OTHER_WORLD,
    RANGE,
    RETURN,
    UNSURE,
    Batch,
    BatchNames,
    Onward,
    Tally,
    TracedTask,
    add_cycles,
)
from prologue.trace.readers.coverage import TextCoverage
from prologue.trace.readers.decoder_reports import HIGHEST_VMID, OF_IMAGE, DecoderReports, LastRange, SourceState
from prologue.trace.readers.opencsd_lines import (
    BANNER,
    BESIDE,
    BREAKS,
    CONTEXT,
    CYCLES,
    ELEMENT,
    FIRST,
    ISAS,
    TIME,
    TRANSACTIONS,
    VERSION,
    DecoderError,
    Packets,
    flow_packets,
    has_unknown_code,
    is_fatal,
    is_remark,
    packets_before,
    read_error,
    whole_lines,
)
from prologue.trace.readers.return_stack import ReturnStack
from prologue.trace.readers.streams import Peekable, blocks

_HIGHEST_ID: Final = 0x7F  # CoreSight's trace IDs have seven bits
_HIGHEST_CONTEXT: Final = (1 << 32) - 1  # CONTEXTIDR_EL1 has 32 bits
_LATEST: Final = (1 << 64) - 1  # ns
_BAD_IMAGE: Final = b"[bad-program-image]"
_MOST_VERSIONS: Final = 64
_LOST_LINE: Final = b"(lost)"
_Row = tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class _Source(SourceState):
    """A trace ID; ``last`` is a row of ``RANGE``."""

    tail: bytes = b""  # the end of the last range's line, which describes its last instruction


def read_opencsd(stream: Peekable, account: Tally) -> Iterator[Batch]:
    """Yield the ranges in the order of the text; its timestamps are taken as ns.

    From Armv8.6 on the system counter ticks once a ns (Arm ARM, "The Generic Timer"); older ones are slower.

    Raises:
        InputError: the text has no ranges.

    """
    reader, coverage = _Reader(account), TextCoverage(account)
    some = False
    for block in blocks(stream):
        coverage.take(block)
        ranges = reader.ranges(block)
        some |= len(ranges) > 0
        if len(ranges):
            yield Batch(ranges, reader.names.tasks, reader.names.dsos)
    coverage.end()
    if not some:
        raise InputError("has no instruction ranges: is it text of trc_pkt_lister -decode ?", path=stream.name)


def _is_possible(first: int, last: int, count: bytes, isa: bytes) -> bool:
    """Return whether a range can have that number of instructions (decimal digits)."""
    size = last - first
    if isa not in ISAS or not 0 < size < LONGEST or last >> 64 or len(count) > len(str(LONGEST)):
        return False
    if isa in (b"A64", b"A32"):
        return first & 3 == 0 and size == 4 * int(count)
    return isa not in (b"T32", b"TEE") or 2 * int(count) <= size <= 4 * int(count)


class _Reader:
    def __init__(self, account: Tally) -> None:
        self._account = account
        self._sources: dict[bytes, _Source] = {}
        self._error: DecoderError | None = None
        self._block, self._at = b"", 0  # the lines, and the offset of the last report about an image in them
        self._reports = DecoderReports(account)
        self.names = BatchNames()

    def ranges(self, block: bytes) -> Any:
        """Return the ranges of a block of whole lines."""
        rows: list[_Row] = []
        self._block, self._at = whole_lines(block, _LOST_LINE), 0
        watched = has_unknown_code(self._block) or any(source.calls for source in self._sources.values())
        lines = self._after_packets() if watched else ELEMENT.findall(self._block)
        for name, start, end, count, isa, tail, cycles, element, content, other in lines:
            if not name:
                if other:
                    self._other(other)
                continue
            source = self._sources.get(name) or self._begin(name, element)
            if source is None:
                continue
            if start:
                first, last = int(start, 16), int(end, 16)
                if not _is_possible(first, last, count, isa):
                    self._unreadable()
                    continue
                flags, insns = source.flags | source.world, 0
                if isa != b"A64":
                    flags |= AARCH32
                    insns = 0 if last - first == 4 * int(count) else int(count)
                task = source.task
                if source.level == 2 and first >= KERNEL_HALF and source.vmid > 0:
                    task = self._host_task(source.vmid)
                if source.calls is not None:
                    flags |= UNSURE if source.calls.enter() else 0
                    source.calls.leave(tail)
                cpu = int(name, 16)
                row = (
                    source.time, first, last, cpu, task, 0, source.vmid, source.level, flags, insns, source.cycles
                )  # fmt: skip
                rows.append(row)
                source.flags, source.last, source.tail, source.failed = 0, row, tail, False
                source.cycles = add_cycles(0, int(cycles)) if cycles else 0
            else:
                self._apply(source, int(name, 16), element, content)
        return np.array(rows, RANGE)

    def _after_packets(self) -> Iterator[tuple[bytes, ...]]:
        """Yield the same lines as ``findall``, each after a look at the packets before it."""
        for line in ELEMENT.finditer(self._block):
            self._note_addresses(self._block[line.start() : line.end()])
            yield line.groups(b"")

    def _note_addresses(self, packets: bytes) -> None:
        """Note the trace IDs for which the trace has an address."""
        for name, kind in flow_packets(packets):
            # The packets of a single source without frames have ID 0.
            source = self._sources.get(name) or (next(iter(self._sources.values()), None) if name == b"0" else None)
            if source is not None and source.calls is not None:
                source.calls.packet(kind)

    def _begin(self, name: bytes, element: bytes) -> _Source | None:
        """Start a trace ID that was not met before; return None if it cannot be one, or has no program's trace."""
        if int(name, 16) > _HIGHEST_ID:
            self._unreadable()
            return None
        if element in BESIDE:  # a source of other data, as STM
            return None
        if self._sources and element not in FIRST:
            self._lose(
                "trace IDs that begin in the middle: a gap on every CPU",
                singular="trace ID that begins in the middle: a gap on every CPU",
            )
        source = self._sources[name] = _Source()
        return source

    def _host_task(self, process: int) -> int:
        """Return the task of a range of a VHE host's kernel: no other runs at EL2 at a kernel's address.

        Its process is in CONTEXTIDR_EL2, which trace packets give as the virtual context ID (TRCCONFIGR.VMIDOPT), and
        OpenCSD prints that as VMID. CONTEXTIDR_EL1 is a guest's then.
        """
        return self.names.task(TracedTask("", process, process))

    # lines that are neither elements nor packets

    def _other(self, line: bytes) -> None:
        error = read_error(line)
        if error is not None:
            self._failed(error, line)
        elif is_fatal(line):
            self._lose("fatal errors of the decoder: what comes after is missing")
        elif line.startswith(BANNER):
            # Another run, perhaps of another trace: nothing of the one before holds.
            self._sources.clear()
        elif line.startswith(VERSION):
            if len(self._account.versions) < _MOST_VERSIONS:
                self._account.versions.add(line[: len(VERSION) + 20])
        elif self._sources and not is_remark(line):
            self._unreadable()

    def _failed(self, error: DecoderError, line: bytes) -> None:
        """Count an error, which leaves a gap of its source, or of every CPU if it names no source."""
        repeated, self._error = error == self._error, error
        if repeated and error.offset is not None:  # a fatal error is printed a second time
            return
        source = None if error.source is None else self._sources.get(b"%x" % error.source)
        text = f"{error.name}, {error.message}" if error.message else error.name
        where = "" if error.source is None else f" on trace ID {error.source:#x}"
        self._reports.count_kind("errors of the decoder", f"{where}: {text}")
        if error.source is None:
            self._forget()
        if error.name in OF_IMAGE and error.source is not None:
            self._at = max(self._block.find(line, self._at), 0)
            self._report_image(source or _Source(), error.source, text, packets_before(self._block, self._at, error))
            self._at += 1
        if source is not None:
            source.flags, source.last, source.failed = GAP | LOST, None, True

    def _report_image(self, source: _Source, cpu: int, why: str, packets: Packets) -> None:
        """Report that the decoder refused its image."""
        last = LastRange()
        if source.last is not None:
            onward = Onward.UNKNOWN
            if not source.flags and b"iBR" not in source.tail:  # no exception, and no return, came after it
                onward = Onward.TARGET if source.tail.startswith(b"E BR") else Onward.NEXT
            last = LastRange(source.last[1], source.last[2], source.last[8], onward)
        self._reports.add_image(source, cpu, why, last, packets)

    def _unreadable(self) -> None:
        self._lose("lines that cannot be read: a gap on every CPU")

    def _lose(self, name: str, *, singular: str = "") -> None:
        """Count lost input, which may have been of any CPU, and may have changed its context."""
        self._account.add(name, singular=singular)
        self._forget()

    def _forget(self) -> None:
        for source in self._sources.values():
            source.forget()

    # elements

    def _apply(self, source: _Source, cpu: int, element: bytes, content: bytes) -> None:
        if element in BREAKS:
            self._break(source, cpu, element, content)
        elif element in (b"EXCEPTION", b"EXCEPTION_RET"):
            source.flags |= EXCEPTION if element == b"EXCEPTION" else RETURN
            if source.calls is not None:
                source.calls.interrupt()
        elif element == b"TIMESTAMP" and (time := TIME.fullmatch(content)) and int(time[1], 16) <= _LATEST:
            source.time = int(time[1], 16)
        elif element == b"PE_CONTEXT" and (context := CONTEXT.fullmatch(content)):
            self._context(source, *context.groups())
        elif element == b"CYCLE_COUNT" and (cycles := CYCLES.fullmatch(content)):
            source.cycles = add_cycles(source.cycles, int(cycles[1]))
        elif element == b"MEMTRANS" and (kind := content.partition(b" ")[0]) in TRANSACTIONS:
            if kind == b"Fail":  # everything since its start was undone, and execution went on after the TSTART
                source.flags, source.last = GAP, None
                if source.calls is not None:
                    source.calls.lose()
                self._reports.count_rollback()
        elif element in (b"PE_CONTEXT", b"TIMESTAMP", b"MEMTRANS", b"INSTR_RANGE", b"CYCLE_COUNT"):
            self._unreadable()
        elif element not in BESIDE:
            name = element[:40].decode("ascii", "backslashreplace")
            unknown = f" of a kind that is not known here, {name}: a gap on every CPU"
            self._reports.count_kind("elements", unknown)
            self._forget()

    def _break(self, source: _Source, cpu: int, element: bytes, content: bytes) -> None:
        lost = LOST if b"overflow" in content or element != b"TRACE_ON" else 0
        if element == b"NO_SYNC" and _BAD_IMAGE in content and not source.failed:
            self._report_image(source, cpu, "bad-program-image", Packets())
        # A decoder that reported an error says next that it is out of synchronisation: one gap, counted once.
        if element != b"NO_SYNC" or not source.failed:
            self._account.add(BREAKS[element])
        source.flags, source.last, source.failed = GAP | lost, None, False
        if element in FIRST:
            source.calls = None
        else:
            source.calls = source.calls or ReturnStack()
            source.calls.lose()

    def _context(
        self, source: _Source, level: bytes | None, security: bytes, vmid: bytes | None, context: bytes | None
    ) -> None:
        source.level = NO_LEVEL if level is None else int(level)
        source.world = 0 if security == b"N" else OTHER_WORLD
        source.vmid = NO_VMID if vmid is None else int(vmid, 16)
        task = 0 if context is None else int(context, 16)
        if source.vmid > HIGHEST_VMID or task > _HIGHEST_CONTEXT:
            self._unreadable()
        else:
            source.task = self.names.task(TracedTask("", task, task)) if task else 0
