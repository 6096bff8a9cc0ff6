"""Reads what OpenCSD's ``trc_pkt_lister -decode`` prints: ranges that ran, with the context that trace packets gave.

The elements are those of OpenCSD's generic trace output (``trc_gen_elem.cpp``, 1.3). A trace ID stands for a CPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

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
_ELEMENT: Final = re.compile(
    rb"(?:ID:([0-9a-f]+);[^\n]*?)?OCSD_GEN_TRC_ELEM_(?:"
    rb"INSTR_RANGE\(exec range=0x([0-9a-f]+):\[0x([0-9a-f]+)\] num_i\((\d+)\) "
    rb"last_sz\(\d+\) \(ISA=(\w+)\)[^\n]*\)[^\n]*\n"
    rb"|(\w+)([^\n]*))"
)
_HIGHEST_ID: Final = 0x7F  # CoreSight's trace IDs have seven bits
_HIGHEST_VMID: Final = (1 << 31) - 1  # what ranges, and guests' numbers, can be
_HIGHEST_CONTEXT: Final = (1 << 32) - 1  # CONTEXTIDR_EL1 has 32 bits
_LATEST: Final = (1 << 64) - 1
_LEVEL: Final = re.compile(rb"\bEL([0-3])")
_VMID: Final = re.compile(rb"VMID=0x([0-9a-f]+)")
_CONTEXT: Final = re.compile(rb"CTXTID=0x([0-9a-f]+)")
_TIME: Final = re.compile(rb"TS=0x([0-9a-f]+)")
_BREAKS: Final = {
    b"TRACE_ON": "places where tracing began (trace on)",
    b"NO_SYNC": "places without synchronisation",
    b"ADDR_NACC": "places where the decoder had no memory to follow the program",
    b"UNKNOWN": "unknown elements of the decoder: a gap",
    b"I_RANGE_NOPATH": "ranges whose path the decoder does not know: a gap",
    b"EO_TRACE": "ends of trace",
}


@dataclass(slots=True)
class _Source:
    """What holds for the next range of a trace ID."""

    flags: int = GAP
    time: int = 0
    task: int = 0
    vmid: int = NO_VMID
    level: int = NO_LEVEL


def read_opencsd(stream: Peekable, account: Tally) -> Iterator[Batch]:
    """Give the ranges in the order of the text.

    Raises:
        InputError: there are none.

    """
    reader = _Reader(account)
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
    if not 0 < size < LONGEST or last >> 64 or len(count) > len(str(LONGEST)):
        return False
    return isa != b"A64" or (first & 3 == 0 and size == 4 * int(count))


class _Reader:
    def __init__(self, account: Tally) -> None:
        self._account = account
        self._sources: dict[bytes, _Source] = {}
        self.names = BatchNames()

    def ranges(self, block: bytes) -> Any:
        """The ranges of some lines."""
        rows: list[tuple[int, ...]] = []
        for name, start, end, count, isa, element, said in _ELEMENT.findall(block):
            source = self._sources.get(name)
            if source is None:
                if int(name or b"0", 16) > _HIGHEST_ID:
                    self._unreadable()
                    continue
                source = self._sources[name] = _Source()
            if start:
                first, last = int(start, 16), int(end, 16)
                if not _can_be(first, last, count, isa):
                    self._unreadable()
                    continue
                flags = source.flags if isa == b"A64" else source.flags | AARCH32
                cpu = int(name or b"-1", 16)
                rows.append((source.time, first, last, cpu, source.task, 0, source.vmid, source.level, flags, 0))
                source.flags = 0
            elif element == b"INSTR_RANGE":
                self._unreadable()
            else:
                self._apply(source, element, said)
        return np.array(rows, RANGE)

    def _unreadable(self) -> None:
        self._account.add("lines that cannot be read: a gap on every CPU")
        for source in self._sources.values():
            source.flags = GAP

    def _apply(self, source: _Source, element: bytes, said: bytes) -> None:
        if element in _BREAKS:
            lost = LOST if b"overflow" in said or element != b"TRACE_ON" else 0
            source.flags = GAP | lost
            self._account.add(_BREAKS[element])
        elif element == b"EXCEPTION":
            source.flags |= EXCEPTION
        elif element == b"EXCEPTION_RET":
            source.flags |= RETURN
        elif element == b"TIMESTAMP":
            found = _number(_TIME, said, source.time)
            if found > _LATEST:
                self._unreadable()
            else:
                source.time = found
        elif element == b"PE_CONTEXT":
            self._context(source, said)

    def _context(self, source: _Source, said: bytes) -> None:
        level = _LEVEL.search(said)
        vmid, context = _number(_VMID, said, NO_VMID), _number(_CONTEXT, said, 0)
        if vmid > _HIGHEST_VMID or context > _HIGHEST_CONTEXT:
            self._unreadable()
            source.level, source.vmid, source.task = NO_LEVEL, NO_VMID, 0
            return
        source.level = int(level[1]) if level else NO_LEVEL
        source.vmid = vmid
        source.task = self.names.task(TracedTask("", context, context)) if context else 0


def _number(pattern: re.Pattern[bytes], said: bytes, unsaid: int) -> int:
    found = pattern.search(said)
    return int(found[1], 16) if found else unsaid
