"""Reads what OpenCSD's ``trc_pkt_lister -decode`` prints: ranges that ran, with the context that trace packets gave.

A trace ID stands for a CPU. IDs of other sources (STM, ITM) have no ranges, and nothing of them is a gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

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
    BadImage,
    Batch,
    BatchNames,
    Onward,
    Tally,
    TracedTask,
)
from prologue.trace.readers.opencsd_lines import (
    BANNER,
    BESIDE,
    BREAKS,
    CONTEXT,
    ELEMENT,
    FIRST,
    ISAS,
    TIME,
    TRANSACTIONS,
    VERSION,
    DecoderError,
    Packets,
    flow_packets,
    is_fatal,
    is_remark,
    loses_the_way,
    packets_before,
    read_error,
    whole_lines,
)
from prologue.trace.readers.return_stack import ReturnStack
from prologue.trace.readers.streams import Peekable, blocks

_HIGHEST_ID: Final = 0x7F  # CoreSight's trace IDs have seven bits
_HIGHEST_VMID: Final = (1 << 31) - 1  # what ranges, and guests' numbers, can be
_HIGHEST_CONTEXT: Final = (1 << 32) - 1  # CONTEXTIDR_EL1 has 32 bits
_LATEST: Final = (1 << 64) - 1
_OF_IMAGE: Final = frozenset(("OCSD_ERR_BAD_DECODE_IMAGE", "OCSD_ERR_INVALID_OPCODE"))
"""Errors that blame the program image: trace packets that do not fit its branches, and words that are none."""
_BAD_IMAGE: Final = b"[bad-program-image]"
_MOST_KINDS: Final = 64  # of errors and unknown elements that are named
_LOST_LINE: Final = b"(lost)"
_Row = tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class _Source:
    """What holds for the next range of a trace ID, and what was last of it."""

    flags: int = GAP
    time: int = 0
    task: int = 0
    vmid: int = NO_VMID
    level: int = NO_LEVEL
    world: int = 0  # OTHER_WORLD, or 0
    calls: ReturnStack | None = None  # from code on that the decoder does not know
    last: _Row | None = None  # the last range, if nothing came after it
    tail: bytes = b""  # how that range ended
    failed: bool = False  # an error of the decoder was the last thing

    def interrupt(self) -> None:
        """Take an exception, or return from one."""
        if self.calls is not None:
            self.calls.interrupt()


class Counter(NamedTuple):
    """What timestamps count: ``frequency`` ticks a second (CNTFRQ_EL0), from ``start`` ns on.

    From Armv8.6 on the system counter ticks once a ns (Arm ARM, "The Generic Timer"); older ones are slower.
    """

    frequency: int = 10**9
    start: int = 0

    def time(self, ticks: int) -> int:
        """In ns. 0 is no time, for ticks, too; no other becomes 0."""
        return ticks and min(max(ticks * 10**9 // self.frequency + self.start, 1), _LATEST)


def read_opencsd(stream: Peekable, account: Tally, counter: Counter | None = None) -> Iterator[Batch]:
    """Give the ranges in the order of the text; ``counter`` is what its timestamps count, ns if it is not given.

    Raises:
        InputError: there are none.

    """
    reader = _Reader(account, counter or Counter())
    some = False
    for block in blocks(stream):
        ranges = reader.ranges(block)
        some |= len(ranges) > 0
        if len(ranges):
            yield Batch(ranges, reader.names.tasks, reader.names.dsos)
    if not some:
        raise InputError("has no instruction ranges: is it text of trc_pkt_lister -decode ?", path=stream.name)


def _can_be(first: int, last: int, count: bytes, isa: bytes) -> bool:
    """Whether a range of so many instructions (decimal digits) can be."""
    size = last - first
    if isa not in ISAS or not 0 < size < LONGEST or last >> 64 or len(count) > len(str(LONGEST)):
        return False
    if isa in (b"A64", b"A32"):
        return first & 3 == 0 and size == 4 * int(count)
    return isa not in (b"T32", b"TEE") or 2 * int(count) <= size <= 4 * int(count)


class _Reader:
    def __init__(self, account: Tally, counter: Counter) -> None:
        self._account, self._counter = account, counter
        self._sources: dict[bytes, _Source] = {}
        self._error: DecoderError | None = None
        self._block, self._at = b"", 0  # what is read, and where the last report about an image is in it
        self._kinds: set[str] = set()
        self.names = BatchNames()

    def ranges(self, block: bytes) -> Any:
        """The ranges of some lines."""
        rows: list[_Row] = []
        self._block, self._at = whole_lines(block, _LOST_LINE), 0
        watched = loses_the_way(self._block) or any(source.calls for source in self._sources.values())
        lines = self._after_packets() if watched else ELEMENT.findall(self._block)
        for name, start, end, count, isa, tail, element, content, other in lines:
            if not name:
                if other:
                    self._other(other)
                continue
            source = self._sources.get(name) or self._begin(name, element)
            if source is None:
                continue
            if start:
                first, last = int(start, 16), int(end, 16)
                if not _can_be(first, last, count, isa):
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
                row = (source.time, first, last, cpu, task, 0, source.vmid, source.level, flags, 0, insns)
                rows.append(row)
                source.flags, source.last, source.tail, source.failed = 0, row, tail, False
            else:
                self._apply(source, int(name, 16), element, content)
        return np.array(rows, RANGE)

    def _after_packets(self) -> Iterator[tuple[bytes, ...]]:
        """The same lines as of ``findall``, each when the packets before it are known."""
        for line in ELEMENT.finditer(self._block):
            self._addresses(self._block[line.start() : line.end()])
            yield line.groups(b"")

    def _addresses(self, packets: bytes) -> None:
        """Take note of the trace IDs for which the trace has an address."""
        for name, kind in flow_packets(packets):
            # The packets of a single source without frames have ID 0.
            source = self._sources.get(name) or (next(iter(self._sources.values()), None) if name == b"0" else None)
            if source is not None and source.calls is not None:
                source.calls.packet(kind)

    def _begin(self, name: bytes, element: bytes) -> _Source | None:
        """A trace ID that was not met before; None if it is of other data, or none."""
        if int(name, 16) > _HIGHEST_ID:
            self._unreadable()
            return None
        if element in BESIDE:  # of a source of other data, as STM
            return None
        if self._sources and element not in FIRST:
            self._lose(
                "trace IDs that begin in the middle: a gap on every CPU",
                singular="trace ID that begins in the middle: a gap on every CPU",
            )
        source = self._sources[name] = _Source()
        return source

    def _host_task(self, process: int) -> int:
        """The task of a VHE host's range: only such a host's kernel runs at EL2 at a kernel's address.

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
            self._lose(
                "fatal errors of the decoder: what comes after is missing",
                singular="fatal error of the decoder: what comes after is missing",
            )
        elif line.startswith(BANNER):
            # Another run, perhaps of another trace: all begins anew, as at the start of the text.
            self._sources.clear()
        elif line.startswith(VERSION):
            if len(self._account.versions) < _MOST_KINDS:
                self._account.versions.add(line[: len(VERSION) + 20])
        elif self._sources and not is_remark(line):
            self._unreadable()

    def _failed(self, error: DecoderError, line: bytes) -> None:
        """An error is a gap of its source, and of every CPU if it names none."""
        repeated, self._error = error == self._error, error
        if repeated and error.offset is not None:  # a fatal error is printed a second time
            return
        source = None if error.source is None else self._sources.get(b"%x" % error.source)
        text = f"{error.name}, {error.message}" if error.message else error.name
        if error.source is None:
            self._named("errors of the decoder", f": {text}", "error of the decoder")
            self._forget()
        else:
            self._named("errors of the decoder", f" on trace ID {error.source:#x}: {text}", "error of the decoder")
        if error.name in _OF_IMAGE and error.source is not None:
            self._at = max(self._block.find(line, self._at), 0)
            self._blame(source or _Source(), error.source, text, packets_before(self._block, self._at, error))
            self._at += 1
        if source is not None:
            source.flags, source.last, source.failed = GAP | LOST, None, True

    def _named(self, what: str, which: str, singular: str) -> None:
        """Count something by its name, as long as not too many have one: a damaged text has many."""
        if which not in self._kinds and len(self._kinds) >= _MOST_KINDS:
            which = ", others"
        self._kinds.add(which)
        self._account.add(what + which, singular=singular + which)

    def _blame(self, source: _Source, cpu: int, why: str, packets: Packets) -> None:
        """Report that the decoder says of its image that it cannot be what ran."""
        if source.calls is not None and source.calls.may_be_astray:
            what = "of the decoder on its image, after a return that it may have followed wrongly: not judged"
            self._account.add(f"reports {what}", singular=f"report {what}")
            return
        last = source.last
        onward = Onward.NEXT
        if source.flags or b"iBR" in source.tail:  # an exception or its return stands after it
            onward = Onward.UNKNOWN
        elif source.tail.startswith(b"E BR"):
            onward = Onward.TARGET
        bad = BadImage(
            why=why,
            start=last[1] if last else 0,
            end=last[2] if last else 0,
            flags=(last[8] if last else 0) & AARCH32 | source.world,
            level=source.level,
            vmid=source.vmid,
            onward=onward if last else Onward.UNKNOWN,
            begin=packets.address,
            atoms=packets.atoms,
        )
        self._account.report(bad, cpu, source.time)

    def _unreadable(self) -> None:
        self._lose(
            "lines that cannot be read: a gap on every CPU", singular="line that cannot be read: a gap on every CPU"
        )

    def _lose(self, what: str, *, singular: str) -> None:
        """Whatever it was, it may have been of any CPU, and a change of its context."""
        self._account.add(what, singular=singular)
        self._forget()

    def _forget(self) -> None:
        for source in self._sources.values():
            source.flags, source.last = GAP, None
            if source.calls is not None:
                source.calls.lose()
            source.level, source.vmid, source.task, source.world = NO_LEVEL, NO_VMID, 0, 0

    # elements

    def _apply(self, source: _Source, cpu: int, element: bytes, content: bytes) -> None:
        if element in BREAKS:
            self._break(source, cpu, element, content)
        elif element == b"EXCEPTION":
            source.flags |= EXCEPTION
            source.interrupt()
        elif element == b"EXCEPTION_RET":
            source.flags |= RETURN
            source.interrupt()
        elif element == b"TIMESTAMP" and (time := TIME.fullmatch(content)) and int(time[1], 16) <= _LATEST:
            source.time = self._counter.time(int(time[1], 16))
        elif element == b"PE_CONTEXT" and (context := CONTEXT.fullmatch(content)):
            self._context(source, *context.groups())
        elif element == b"MEMTRANS" and (kind := content.partition(b" ")[0]) in TRANSACTIONS:
            if kind == b"Fail":  # what ran since its start was undone, and execution went on after the TSTART
                source.flags, source.last = GAP, None
                if source.calls is not None:
                    source.calls.lose()
                undone = "that failed and were rolled back: a gap"
                self._account.add(
                    f"transactions {undone}", singular="transaction that failed and was rolled back: a gap"
                )
        elif element in (b"PE_CONTEXT", b"TIMESTAMP", b"MEMTRANS", b"INSTR_RANGE"):
            self._unreadable()
        elif element not in BESIDE:
            name = element[:40].decode("ascii", "backslashreplace")
            self._named("elements", f" of a kind that is not known here, {name}: a gap on every CPU", "element")
            self._forget()

    def _break(self, source: _Source, cpu: int, element: bytes, content: bytes) -> None:
        lost = LOST if b"overflow" in content or element != b"TRACE_ON" else 0
        if element == b"NO_SYNC" and _BAD_IMAGE in content and not source.failed:
            self._blame(source, cpu, "bad-program-image", Packets())
        # A decoder that reported an error says next that it is out of synchronisation: one gap, counted once.
        if element != b"NO_SYNC" or not source.failed:
            singular, many, rest = BREAKS[element]
            self._account.add(many + rest, singular=singular + rest)
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
        if source.vmid > _HIGHEST_VMID or task > _HIGHEST_CONTEXT:
            self._unreadable()
        else:
            source.task = self.names.task(TracedTask("", task, task)) if task else 0
