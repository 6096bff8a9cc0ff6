"""A recording as the ETMv4 instruction trace that hardware would have made of it: a stream of packets for each CPU.

Packets: Arm IHI 0064 (Embedded Trace Macrocell Architecture Specification, ETMv4), "Descriptions of instruction trace
packets". There is no speculation, no return stack and no cycle count in it, and all addresses are whole. The trace
unit's registers decide whether it has VMIDs, processes and times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from prologue.arrays import U32
from prologue.elf.image import ElfImage
from prologue.elf.notes import gnu_build_id
from prologue.errors import InputError
from prologue.live.memory.ranges import TOP
from prologue.perf.coresight import TraceUnit
from prologue.trace.etm.waypoints import RangeCode, Waypoint, describe
from prologue.trace.ranges import EXCEPTION, GAP, LOST
from prologue.trace.readers.recording import RecordingHeader, TraceRecords

_SYNC: Final = bytes(11) + b"\x80" + b"\x01\x01\x00"  # A-Sync; Trace Info
_SYNC_PERIOD: Final = 1 << 12
"""Bytes from one A-Sync to the next, which Linux asks trace units for (TRCSYNCPR, ``coresight-etm4x-core.c``, 6.12)."""
_TRACE_ON: Final = b"\x04"
_ATOM: Final = (b"\xf6", b"\xf7")  # not taken, taken
_EXCEPTION: Final = 0x06
_ADDRESS: Final = b"\x9d"  # 64 bits, IS0
_ADDRESS_CONTEXT: Final = b"\x85"
_AARCH64_NON_SECURE: Final = 0x30
_HAS_VMID, _HAS_PROCESS = 0x40, 0x80  # these follow, in this order
_TIMESTAMP: Final = b"\x02"
_ALL_BITS: Final = (1 << 64) - 1
# Exception types of the packet ...
_DEBUG_HALT, _TRAP, _SERROR, _IRQ, _FIQ = 1, 3, 4, 14, 15
_BY_VECTOR: Final = {0: _TRAP, 1: _IRQ, 2: _FIQ, 3: _SERROR}  # ... by the vector's place in its group of four
_RETURN: Final = 0x01  # the exception's address is where it returns to ...
_RETURN_IS_TARGET: Final = 0x40  # ... and the target of the branch before


@dataclass(slots=True)
class ProgramText:
    """Text by run-time address: pieces of consecutive words."""

    pieces: list[tuple[int, U32]]
    _known: dict[tuple[int, int], RangeCode | None] = field(default_factory=dict)

    def code(self, start: int, count: int) -> RangeCode | None:
        """Describe the text of a range; None if no piece has all of it."""
        key = (start, count)
        if key not in self._known:
            self._known[key] = next(
                (
                    describe(start, words[(start - base) // 4 :][:count])
                    for base, words in self.pieces
                    if start >= base and start - base + 4 * count <= 4 * len(words)
                ),
                None,
            )
        return self._known[key]


def require_recorded(image: ElfImage, header: RecordingHeader) -> None:
    """Check that a vmlinux may be the kernel that was recorded.

    Raises:
        InputError: it has another build-id.

    """
    build_id, recorded = gnu_build_id(image), header.build_id.hex()
    if not header.may_be_of(build_id):
        raise InputError(
            f"is another kernel: its build-id is {build_id or 'unknown'}, recorded {recorded}", path=image.path
        )


def linked_text(vmlinux: Path, header: RecordingHeader) -> ProgramText:
    """Read the text of a vmlinux, which ran ``header.slide`` bytes from where it is linked.

    Raises:
        InputError: the file is no vmlinux, or another kernel's.

    """
    image = ElfImage(vmlinux)
    require_recorded(image, header)
    pieces = ((section.addr, image.view(section, "<u4")) for section in image.text_sections)
    return ProgramText([(vaddr + (header.slide or 0) & TOP, words) for vaddr, words in pieces if len(words)])


@dataclass(slots=True, kw_only=True)
class EtmStream:
    """Packets of one CPU, and the ranges that they stand for.

    ``filtered`` and ``unknown`` count the instructions of ranges that were left out: ranges of other levels and guests,
    and ranges without text.
    """

    data: bytearray = field(default_factory=lambda: bytearray(_SYNC))
    starts: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    filtered: int = 0
    unknown: int = 0


_BLOCK: Final = 1 << 14  # records that are numbers of Python's at once
_NO_PROCESSES: Final[Mapping[int, ProgramText]] = MappingProxyType({})


class _Context(NamedTuple):
    level: int = -1
    vmid: int = -1
    process: int = -1


def encode(
    records: TraceRecords,
    text: ProgramText,
    levels: tuple[int, ...],
    unit: TraceUnit,
    *,
    processes: Mapping[int, ProgramText] = _NO_PROCESSES,
) -> EtmStream:
    """Write packets for the records (``RECORD``, with notes) of one CPU, in their order.

    Ranges of other levels, ranges without ``text``, and ranges of guests if the trace unit has no VMIDs are left out,
    as a filter of the hardware does it.

    Args:
        records: of one CPU.
        text: the words that were executed.
        levels: exception levels that are traced.
        unit: the trace unit; its registers decide what else is traced.
        processes: the words that a thread executed at EL0; those without an entry executed ``text``.

    """
    encoder = _Encoder(text, levels, unit, processes)
    for at in range(0, len(records), _BLOCK):
        encoder.encode(records[at : at + _BLOCK])
    return encoder.finish()


class _Encoder:
    def __init__(
        self, text: ProgramText, levels: tuple[int, ...], unit: TraceUnit, processes: Mapping[int, ProgramText]
    ) -> None:
        self._text, self._levels, self._unit, self._processes = text, levels, unit, processes
        self._stream = EtmStream()
        self._last: tuple[int, int, RangeCode] | None = None  # start, end and code of the range before
        self._context = _Context()
        self._synced = 0  # offset of the last A-Sync
        self._time: int | None = 0  # of the last timestamp; None: the next one has all of its bits
        self._timed = not unit.has_times  # whether one came after the last context
        self._returns: int | None = None  # of the note before

    def encode(self, records: TraceRecords) -> None:
        names = ("start", "count", "level", "flags", "vmid", "task", "time")
        rows: Any = zip(*(records[name].tolist() for name in names), strict=True)
        for start, count, level, flags, vmid, task, time in rows:
            if not count:
                self._returns = start if flags == EXCEPTION else self._returns
                if flags & (GAP | LOST):
                    self._stop()
                continue
            traced = level in self._levels and (vmid <= 0 or self._unit.has_vmid)
            text = self._text if level else self._processes.get(task, self._text)
            code = text.code(start, count) if traced else None
            if code is None:
                self._stop(None if flags & GAP else self._returns if flags & EXCEPTION else start)
                self._stream.filtered += 0 if traced else count
                self._stream.unknown += count if traced else 0
            else:
                self._step(start, flags, self._context_of(level, vmid, task), self._returns, time)
                self._stream.starts.append(start)
                self._stream.counts.append(count)
                for taken in code.inside:
                    self._stream.data += _ATOM[taken]
                self._last = (start, start + 4 * count, code)
            self._returns = None

    def finish(self) -> EtmStream:
        self._stop()
        return self._stream

    def _context_of(self, level: int, vmid: int, task: int) -> _Context:
        if self._unit.process_in_vmid:
            return _Context(level, task)
        # A VMID that a packet leaves out is the one before: a guest's, once it ran.
        own_vmid = max(vmid, 0) if self._unit.has_vmid else -1
        return _Context(level, own_vmid, task if self._unit.has_process else -1)

    def _step(self, start: int, flags: int, context: _Context, returns: int | None, time: int) -> None:
        """Write the packets between the last range and one that starts at ``start``."""
        last = self._last
        if last is None or flags & GAP or _is_broken(last, start, flags, returns):
            self._stop()
            self._synchronise()
            self._stream.data += _TRACE_ON
            self._address(start, context, force=True)
        elif flags & EXCEPTION:
            self._exception(last, last[1] if returns is None else returns, start)
            self._address(start, context, force=True)
        elif last[2].last == Waypoint.NONE:
            return  # a decoder joins both ranges: context and time are those at the start of the first
        else:
            self._leave(last, start)
            synced = self._synchronise()
            if synced or last[2].last == Waypoint.INDIRECT or context != self._context:
                self._address(start, context, force=synced)
        self._stamp(time)

    def _synchronise(self) -> bool:
        """Write A-Sync and Trace Info if it is time to; a decoder may begin with an address and context after them."""
        if len(self._stream.data) - self._synced < _SYNC_PERIOD:
            return False
        self._synced, self._time = len(self._stream.data), None
        self._stream.data += _SYNC
        return True

    def _leave(self, last: tuple[int, int, RangeCode], to: int) -> None:
        """Write the atom of the last instruction of a range, which leads to ``to``."""
        _, end, code = last
        if code.last == Waypoint.CONDITIONAL:
            self._stream.data += _ATOM[to == code.target or to != end]
        elif code.last != Waypoint.NONE:
            self._stream.data += _ATOM[1]

    def _exception(self, last: tuple[int, int, RangeCode], returns: int, vector: int, kind: int | None = None) -> None:
        code = last[2]
        # A range ends with an instruction that was executed.
        self._leave(last, returns)
        unknown = code.last == Waypoint.INDIRECT
        how = _RETURN_IS_TARGET if unknown else _RETURN
        if kind is None:
            kind = _BY_VECTOR[vector >> 7 & 3]
        self._stream.data += bytes([_EXCEPTION, kind << 1 | how]) + _ADDRESS + _packed(returns)

    def _address(self, vaddr: int, context: _Context, *, force: bool = False) -> None:
        if not force and context == self._context:
            self._stream.data += _ADDRESS + _packed(vaddr)
            return
        self._context, self._timed = context, not self._unit.has_times
        level, vmid, process = context
        info, more = _AARCH64_NON_SECURE | level, b""
        if vmid >= 0:
            info |= _HAS_VMID
            more += vmid.to_bytes(self._unit.vmid_size, "little")
        if process >= 0:
            info |= _HAS_PROCESS
            more += process.to_bytes(4, "little")
        self._stream.data += _ADDRESS_CONTEXT + _packed(vaddr) + bytes([info]) + more

    def _stamp(self, time: int) -> None:
        """Write a timestamp if the time is new, or no timestamp came since the context."""
        if self._unit.has_times and (time != self._time or not self._timed):
            self._stream.data += _TIMESTAMP + _changed_bits(
                time, ~time & _ALL_BITS if self._time is None else self._time
            )
            self._time, self._timed = time, True

    def _stop(self, to: int | None = None) -> None:
        """End tracing. An exception, a halt for the debugger, shows the instructions after the last waypoint."""
        last, self._last = self._last, None
        if last is None:
            return
        if last[2].last == Waypoint.NONE:
            self._exception(last, last[1], 0, _DEBUG_HALT)
        else:
            self._leave(last, last[1] if to is None else to)


def _is_broken(last: tuple[int, int, RangeCode], start: int, flags: int, returns: int | None) -> bool:
    """Return whether the records do not say how execution got from the last range to the next: then it is a gap."""
    if flags & EXCEPTION:
        return returns is None and last[2].last == Waypoint.INDIRECT
    return start != last[1] and last[2].last == Waypoint.NONE


def _packed(vaddr: int) -> bytes:
    """Pack a whole address: bits 8:2 and 15:9 in seven bits each, then six bytes."""
    return bytes([vaddr >> 2 & 0x7F, vaddr >> 9 & 0x7F]) + (vaddr >> 16 & (1 << 48) - 1).to_bytes(6, "little")


def _changed_bits(value: int, before: int) -> bytes:
    """Pack the bits of a number of 64 up to the last changed one: seven in each byte, eight in a ninth.

    The high bit of the first eight bytes says that another byte follows.
    """
    size = min(max(-(-(value ^ before).bit_length() // 7), 1), 9)
    parts = [value >> 7 * k & 0x7F | 0x80 for k in range(size)]
    parts[-1] = value >> 56 & 0xFF if size == 9 else parts[-1] & 0x7F
    return bytes(parts)
