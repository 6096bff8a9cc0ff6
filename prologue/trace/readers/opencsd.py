"""The reader of text of OpenCSD's ``trc_pkt_lister -decode``: its lines become the elements that the library gives.

A trace ID stands for a CPU. IDs of other sources (STM, ITM) have no ranges, and none of their elements is a gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.arrays import U64
from prologue.errors import InputError
from prologue.live.memory.ranges import KERNEL_HALF
from prologue.trace.coresight.elements import BAD_IMAGE, ELEMENT, Elements
from prologue.trace.ranges import RANGE, Batch, BatchNames, Tally, TraceRanges
from prologue.trace.readers.coverage import TextCoverage
from prologue.trace.readers.decoder_reports import ElementNaming, plain_task, same_number
from prologue.trace.readers.elements import ElementReader
from prologue.trace.readers.opencsd_lines import (
    BANNER,
    BESIDE,
    FIRST,
    KINDS,
    LINE,
    VERSION,
    DecoderError,
    ElementRow,
    cycles_row,
    is_fatal,
    is_remark,
    other_row,
    range_row,
    read_error,
    whole_lines,
)
from prologue.trace.readers.streams import Peekable, blocks

_HIGHEST_ID: Final = 0x7F  # CoreSight's trace IDs have seven bits
_LOST_LINE: Final = b"(lost)"
_NO_INDEXES: Final[U64] = np.zeros(0, np.uint64)


def read_opencsd(stream: Peekable, account: Tally) -> Iterator[Batch]:
    """Yield the ranges in the order of the text; its timestamps are taken as ns.

    From Armv8.6 on the system counter ticks once a ns (Arm ARM, "The Generic Timer"); older ones are slower.

    Raises:
        InputError: the text has no ranges, or is of several versions.

    """
    reader, coverage = _TextReader(account, stream.name), TextCoverage(account)
    some = False
    for block in blocks(stream):
        coverage.take(block)
        ranges = reader.ranges(block)
        some |= len(ranges) > 0
        if len(ranges):
            _name_processes_of_hosts(ranges, reader.names)
            yield Batch(ranges, reader.names.tasks, reader.names.dsos)
    coverage.end()
    if not some:
        raise InputError("has no instruction ranges: is it text of trc_pkt_lister -decode ?", path=stream.name)


def _name_processes_of_hosts(ranges: TraceRanges, names: BatchNames) -> None:
    """Name the task of each range of a VHE host's kernel: no other runs at EL2 at a kernel's address.

    Its process is in CONTEXTIDR_EL2, which trace packets give as the virtual context ID (TRCCONFIGR.VMIDOPT), and
    OpenCSD prints that as VMID. CONTEXTIDR_EL1 is a guest's then.
    """
    of_host = (ranges["level"] == 2) & (ranges["start"] >= np.uint64(KERNEL_HALF)) & (ranges["vmid"] > 0)
    for process in np.unique(ranges["vmid"][of_host]).tolist():
        ranges["task"][of_host & (ranges["vmid"] == process)] = names.task(plain_task(process, 0))


class _TextReader:
    def __init__(self, account: Tally, name: str) -> None:
        self._account, self._name, self.names = account, name, BatchNames()
        self._version = b""  # the line of the decoder's version
        naming = ElementNaming(cpu=same_number, time=int, task=plain_task, checks_images=True, return_stack=True)
        self._reader = ElementReader(account, naming, self.names, None)
        self._ids: dict[bytes, int] = {}  # of traces of instructions
        self._rows: list[ElementRow] = []
        self._row_ids: list[int] = []
        self._read: list[TraceRanges] = []  # the ranges of the block that are read by now
        self._error: DecoderError | None = None

    def ranges(self, block: bytes) -> TraceRanges:
        """Return the ranges of a block of whole lines."""
        self._read = [np.zeros(0, RANGE)]
        lines = LINE.findall(whole_lines(block, _LOST_LINE))
        for name, start, end, count, isa, tail, cycles, element, content, other in lines:
            if not name:
                if other:
                    self._other(other)
                continue
            number = self._ids[name] if name in self._ids else self._begin(name, element)
            if number is None:
                continue
            if not start:
                self._element(number, element, content)
            elif (row := range_row(start, end, count, isa, tail)) is None:
                self._lose_line()
            else:
                self._add(number, row)
                if cycles:
                    self._add(number, cycles_row(cycles))
        self._flush()
        return np.concatenate(self._read)

    def _begin(self, name: bytes, element: bytes) -> int | None:
        """Start a trace ID that was not met before; return None if it cannot be one, or has no program's trace."""
        number = int(name, 16)
        if number > _HIGHEST_ID:
            self._lose_line()
            return None
        if element in BESIDE:  # a source of other data, as STM
            return None
        if self._ids and element not in FIRST:
            self._lose(
                "trace IDs that begin in the middle: a gap on every CPU",
                singular="trace ID that begins in the middle: a gap on every CPU",
            )
        self._ids[name] = number
        return number

    def _add(self, number: int, row: ElementRow) -> None:
        self._rows.append(row)
        self._row_ids.append(number)

    def _flush(self) -> None:
        """Let the reader take the elements up to here."""
        if self._rows:
            rows, ids = np.array(self._rows, ELEMENT), np.array(self._row_ids, np.uint8)
            self._read.append(self._reader.ranges(Elements(rows, ids, _NO_INDEXES)))
            self._rows.clear()
            self._row_ids.clear()

    def _element(self, number: int, element: bytes, content: bytes) -> None:
        if element in KINDS:
            row = other_row(element, content)
            if row is None:
                self._lose_line()
                return
            if element == b"NO_SYNC" and row[-1] == BAD_IMAGE:
                self._flush()  # it is a report on the range before it
            self._add(number, row)
        elif element not in BESIDE:
            name = element[:40].decode("ascii", "backslashreplace")
            self._flush()
            self._reader.reports.count_kind(
                "elements", f" of a kind that is not known here, {name}: a gap on every CPU"
            )
            self._reader.forget()

    # lines that are neither elements nor packets

    def _other(self, line: bytes) -> None:
        error = read_error(line)
        if error is not None:
            self._failed(error)
        elif is_fatal(line):
            self._lose("fatal errors of the decoder: what comes after is missing")
        elif line.startswith(BANNER):
            # Another run, perhaps of another trace: nothing of the one before holds.
            self._flush()
            self._reader.begin(None)
            self._ids.clear()
        elif line.startswith(VERSION):
            if self._version not in (b"", line):
                raise InputError("has runs of several versions of OpenCSD: read them one by one", path=self._name)
            self._version = line
        elif self._ids and not is_remark(line):
            self._lose_line()

    def _failed(self, error: DecoderError) -> None:
        repeated, self._error = error == self._error, error
        if repeated and error.offset is not None:  # a fatal error is printed a second time
            return
        self._flush()
        self._reader.error(error)

    def _lose_line(self) -> None:
        self._lose("lines that cannot be read: a gap on every CPU")

    def _lose(self, name: str, *, singular: str = "") -> None:
        """Count lost input, which may have been of any CPU, and may have changed its context."""
        self._flush()
        self._account.add(name, singular=singular)
        self._reader.forget()
