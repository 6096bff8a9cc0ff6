"""Reads what OpenCSD's ``trc_pkt_lister -decode`` prints: ranges that ran, with the context that trace packets gave.

The elements are those of OpenCSD's generic trace output (``trc_gen_elem.cpp``, 1.3). A trace ID stands for a CPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from prologue.errors import InputError
from prologue.trace.form import (
    AARCH32,
    EXCEPTION,
    GAP,
    LONGEST,
    LOST,
    NO_LEVEL,
    NO_VMID,
    RANGE,
    RETURN,
    Batch,
    BatchNames,
    Tally,
    TracedTask,
)
from prologue.trace.streams import Peekable, blocks

MARK: Final = b"OCSD_GEN_TRC_ELEM_"
_PACKET: Final = (
    rb"Idx:\d+; ID:[0-9a-f]+; ?(?:\[[0-9a-fx ]*\];)?\t\w+ : (?:(?!OCSD_GEN|ELEM_|range=0x|num_i\()[^\n])*\n"
)
# The packets before an element, then the element; or a line that is neither.
_ELEMENT: Final = re.compile(
    rb"(?:%s)*+(?:Idx:\d+; ID:([0-9a-f]+); OCSD_GEN_TRC_ELEM_(?:"
    rb"INSTR_RANGE\(exec range=0x([0-9a-f]+):\[0x([0-9a-f]+)\] num_i\((\d+)\) "
    rb"last_sz\(\d+\) \(ISA=(\w+)\) [EN] [\w+:.<> -]*(?: \[CC=\d+\]; )?\)\r?\n"
    rb"|(\w+)\(([^\n]*)\)\r?\n)|([^\n]+)\n|\n|\Z)" % _PACKET
)
_GLUED: Final = re.compile(rb"(?<=[^\n])(?=Idx:)")
_REMARK: Final = re.compile(
    rb"ID:[0-9a-f]+\tEND OF TRACE DATA|Trace Packet Lister : |Gen_Info : |Filename=|Frame Data;|\r?$"
)
_HIGHEST_ID: Final = 0x7F  # CoreSight's trace IDs have seven bits
_HIGHEST_VMID: Final = (1 << 31) - 1  # what ranges, and guests' numbers, can be
_HIGHEST_CONTEXT: Final = (1 << 32) - 1  # CONTEXTIDR_EL1 has 32 bits
_LATEST: Final = (1 << 64) - 1
_CONTEXT: Final = re.compile(
    rb"\(ISA=\w+\) (?:EL([0-3]))?(?:S|N|Root|Realm); (?:64|32)-bit; "
    rb"(?:VMID=0x([0-9a-f]+); )?(?:CTXTID=0x([0-9a-f]+); )?(?: \[CC=\d+\]; )?"
)
_TIME: Final = re.compile(rb" \[ TS=0x([0-9a-f]+)\]; (?: \[CC=\d+\]; )?")
_BREAKS: Final = {
    b"TRACE_ON": ("place", "places", " where tracing began (trace on)"),
    b"NO_SYNC": ("place", "places", " without synchronisation"),
    b"ADDR_NACC": ("place", "places", " where the decoder had no memory to follow the program"),
    b"UNKNOWN": ("unknown element", "unknown elements", " of the decoder: a gap"),
    b"I_RANGE_NOPATH": ("range", "ranges", " whose path the decoder does not know: a gap"),
    b"ADDR_UNKNOWN": ("place", "places", " where the decoder did not know the address"),
    b"EO_TRACE": ("end", "ends", " of trace"),
}
_FIRST: Final = frozenset((b"NO_SYNC", b"TRACE_ON", b"EO_TRACE"))
"""What the decoders say first of an ID: what begins with another element is one whose digits are damaged."""
_BESIDE: Final = frozenset(
    (b"CYCLE_COUNT", b"EVENT", b"SWTRACE", b"SYNC_MARKER", b"MEMTRANS", b"INSTRUMENTATION", b"CUSTOM")
)
"""Elements that say nothing of where execution went."""
_ISAS: Final = frozenset((b"A64", b"A32", b"T32", b"TEE", b"Jaz", b"Cst", b"Unk"))


@dataclass(slots=True, kw_only=True)
class _Source:
    """What holds for the next range of a trace ID."""

    flags: int = GAP
    time: int = 0
    task: int = 0
    vmid: int = NO_VMID
    level: int = NO_LEVEL


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
    if isa not in _ISAS or not 0 < size < LONGEST or last >> 64 or len(count) > len(str(LONGEST)):
        return False
    return isa != b"A64" or (first & 3 == 0 and size == 4 * int(count))


class _Reader:
    def __init__(self, account: Tally, counter: Counter) -> None:
        self._account, self._counter = account, counter
        self._sources: dict[bytes, _Source] = {}
        self.names = BatchNames()

    def ranges(self, block: bytes) -> Any:
        """The ranges of some lines."""
        if block.count(b"Idx:") != block.count(b"\nIdx:") + block.startswith(b"Idx:"):
            block = _GLUED.sub(b"\n(lost)\n", block)
        rows: list[tuple[int, ...]] = []
        for name, start, end, count, isa, element, said, other in _ELEMENT.findall(block):
            if not name:
                if self._sources and other and not _REMARK.match(other):
                    self._unreadable()
                continue
            source = self._sources.get(name)
            if source is None:
                if int(name, 16) > _HIGHEST_ID:
                    self._unreadable()
                    continue
                if element in _BESIDE:  # of a source of other data, as STM
                    continue
                if self._sources and element not in _FIRST:
                    self._lose(
                        "trace IDs that begin in the middle: a gap on every CPU",
                        one="trace ID that begins in the middle: a gap on every CPU",
                    )
                source = self._sources[name] = _Source()
            if start:
                first, last = int(start, 16), int(end, 16)
                if not _can_be(first, last, count, isa):
                    self._unreadable()
                    continue
                flags = source.flags if isa == b"A64" else source.flags | AARCH32
                cpu = int(name, 16)
                rows.append((source.time, first, last, cpu, source.task, 0, source.vmid, source.level, flags, 0))
                source.flags = 0
            else:
                self._apply(source, element, said)
        return np.array(rows, RANGE)

    def _unreadable(self) -> None:
        self._lose("lines that cannot be read: a gap on every CPU", one="line that cannot be read: a gap on every CPU")

    def _lose(self, what: str, *, one: str) -> None:
        """Whatever it was, it may have been of any CPU, and a change of its context."""
        self._account.add(what, one=one)
        for source in self._sources.values():
            source.flags = GAP
            source.level, source.vmid, source.task = NO_LEVEL, NO_VMID, 0

    def _apply(self, source: _Source, element: bytes, said: bytes) -> None:
        if element in _BREAKS:
            lost = LOST if b"overflow" in said or element != b"TRACE_ON" else 0
            source.flags = GAP | lost
            one, many, rest = _BREAKS[element]
            self._account.add(many + rest, one=one + rest)
        elif element == b"EXCEPTION":
            source.flags |= EXCEPTION
        elif element == b"EXCEPTION_RET":
            source.flags |= RETURN
        elif element == b"TIMESTAMP" and (time := _TIME.fullmatch(said)) and int(time[1], 16) <= _LATEST:
            source.time = self._counter.time(int(time[1], 16))
        elif element == b"PE_CONTEXT" and (context := _CONTEXT.fullmatch(said)):
            self._context(source, *context.groups())
        elif element not in _BESIDE:
            self._unreadable()

    def _context(self, source: _Source, level: bytes | None, vmid: bytes | None, context: bytes | None) -> None:
        source.level = NO_LEVEL if level is None else int(level)
        source.vmid = NO_VMID if vmid is None else int(vmid, 16)
        task = 0 if context is None else int(context, 16)
        if source.vmid > _HIGHEST_VMID or task > _HIGHEST_CONTEXT:
            self._unreadable()
        else:
            source.task = self.names.task(TracedTask("", task, task)) if task else 0
