"""CoreSight trace units in perf.data: registers, trace IDs, clocks.

Sources: ``tools/perf/util/cs-etm.h`` and ``cs-etm.c`` (5.10-7.2), ``include/linux/coresight-pmu.h`` (7.2).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from prologue.perf.layout import OtherDataError

_CS_ETM: Final = 3  # PERF_AUXTRACE_CS_ETM
_NEWEST: Final = 2
_MAGIC_ETM3: Final = 0x3030303030303030
_MAGIC_ETM4: Final = 0x4040404040404040
_MAGIC_ETE: Final = 0x5050505050505050
_FIRST_FORM: Final = 7  # parameters of an ETMv4 in version 0, which does not count them
_REGISTERS: Final = ("configr", "traceidr", "idr0", "idr1", "idr2", "idr8")  # then AUTHSTATUS
_MOST_CPUS: Final = 4096
_OTHERS: Final = {1: "Intel PT", 2: "Intel BTS", 4: "Arm SPE", 5: "s390 CPU measurement", 6: "HiSilicon PTT"}

AUTHSTATUS: Final = 0xCC
"""TRCAUTHSTATUS of the trace units that are written: tracing of both Secure and Non-secure state is allowed."""


class TraceProtocol(Enum):
    """The protocol of a trace unit's stream; the value is its name among OpenCSD's decoders."""

    ETM3 = "ETMV3"  # or PTM
    ETM4 = "ETMV4I"
    ETE = "ETE"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceUnit:
    """The trace unit of a CPU, by its registers."""

    cpu: int
    protocol: TraceProtocol
    configr: int = 0
    traceidr: int = 0
    idr0: int = 0
    idr1: int = 0
    idr2: int = 0
    idr8: int = 0
    devarch: int = 0
    kernel_time: bool = False  # its timestamps are those of perf's clock (TS_SOURCE virtual)

    @property
    def has_times(self) -> bool:
        """True if it traces timestamps (TRCCONFIGR.TS)."""
        return bool(self.configr & 1 << 11)

    @property
    def trace_id(self) -> int:
        """Number of its bytes in the frames of a formatter, 7 bits."""
        return self.traceidr & 0x7F

    @property
    def has_process(self) -> bool:
        """True if it traces CONTEXTIDR_EL1 or, under VHE, CONTEXTIDR_EL2 (TRCCONFIGR.CID; VMID with VMIDOPT)."""
        return bool(self.configr & (1 << 6)) or self.process_in_vmid

    @property
    def has_vmid(self) -> bool:
        """True if it traces VTTBR_EL2's VMID, which tells guests apart."""
        return bool(self.configr & 1 << 7) and not self.process_in_vmid

    @property
    def vmid_size(self) -> int:
        """Bytes of a VMID in its packets (TRCIDR2.VMIDSIZE)."""
        return self.idr2 >> 10 & 31

    @property
    def has_return_stack(self) -> bool:
        """True if it leaves out addresses of returns (TRCCONFIGR.RS)."""
        return bool(self.configr & 1 << 12)

    @property
    def process_in_vmid(self) -> bool:
        """True if the VMID that it traces is CONTEXTIDR_EL2, as the kernel of a VHE host asks it to."""
        return self.configr & (1 << 7 | 1 << 15) == 1 << 7 | 1 << 15


def read_units(body: bytes) -> tuple[TraceUnit, ...]:
    """Read the trace units of an AUXTRACE_INFO record.

    Raises:
        ValueError: another kind of trace, a form that is not known, or damage.

    """
    kind = struct.unpack_from("<I", body)[0]
    if kind != _CS_ETM:
        raise OtherDataError(f"has AUX data of {_OTHERS.get(kind, f'kind {kind}')}: only CoreSight traces are read")
    words = struct.unpack_from(f"<{(len(body) - 8) // 8}Q", body, 8)
    if len(words) < 3:
        raise ValueError("the description of its trace units is cut off")
    version, count = words[0], words[1] & 0xFFFFFFFF
    if version > _NEWEST:
        raise OtherDataError(f"describes its trace units in version {version}; known are 0 to {_NEWEST}")
    if count > _MOST_CPUS:
        raise ValueError(f"it says that it has {count:,} trace units")
    return tuple(_units(words[3:], count, counted=version > 0))


def pack_units(units: Sequence[TraceUnit], pmu: int) -> bytes:
    """Pack the body of an AUXTRACE_INFO record of version 1, which needs no AUX_OUTPUT_HW_ID records.

    Args:
        units: of ETMv4s, each with its trace ID.
        pmu: the type of the event.

    """
    words = [1, pmu << 32 | len(units), 0]
    for unit in units:
        values = [getattr(unit, name) for name in _REGISTERS]
        values += [AUTHSTATUS, int(unit.kernel_time)]
        words += [_MAGIC_ETM4, unit.cpu, len(values), *values]
    return struct.pack(f"<II{len(words)}Q", _CS_ETM, 0, *words)


def _units(words: tuple[int, ...], count: int, *, counted: bool) -> Iterator[TraceUnit]:
    at = 0
    for number in range(count):
        head = 3 if counted else 2
        if at + head > len(words):
            raise ValueError(f"the description of trace unit {number} is cut off")
        magic, cpu = words[at : at + 2]
        size = words[at + 2] if counted else 4 if magic == _MAGIC_ETM3 else _FIRST_FORM
        values = words[at + head : at + head + size]
        if len(values) < size or cpu >= _MOST_CPUS:
            raise ValueError(f"the description of trace unit {number} is damaged")
        at += head + size
        yield _unit(magic, cpu, values)


def _unit(magic: int, cpu: int, values: tuple[int, ...]) -> TraceUnit:
    if magic == _MAGIC_ETM3:
        return TraceUnit(cpu=cpu, protocol=TraceProtocol.ETM3, traceidr=values[1] if len(values) > 1 else 0)
    if magic not in (_MAGIC_ETM4, _MAGIC_ETE):
        raise ValueError(f"the trace unit of CPU {cpu} is of an unknown kind, {magic:#x}")
    is_ete = magic == _MAGIC_ETE
    if len(values) < (8 if is_ete else 7):
        raise ValueError(f"the trace unit of CPU {cpu} has {len(values)} registers only")
    source = values[8:9] if is_ete else values[7:8]
    registers = {name: value & 0xFFFFFFFF for name, value in zip(_REGISTERS, values, strict=False)}
    return TraceUnit(
        cpu=cpu,
        protocol=TraceProtocol.ETE if is_ete else TraceProtocol.ETM4,
        devarch=values[7] & 0xFFFFFFFF if is_ete else 0,
        kernel_time=source == (1,),
        **registers,
    )


class HardwareId(NamedTuple):
    """An AUX_OUTPUT_HW_ID record: the trace ID of a CPU, and the sink whose data have it; None for all sinks."""

    trace_id: int
    sink: int | None


def read_hardware_id(body: bytes) -> HardwareId:
    """Read the record of a CPU.

    Raises:
        ValueError: a newer form.

    """
    (value,) = struct.unpack_from("<Q", body)
    if value >> 60:
        raise ValueError(f"its trace IDs are given in version {value >> 60}; known is 0")
    return HardwareId(value & 0x7F, value >> 8 & 0xFFFFFFFF if value >> 56 & 15 else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeConversion:
    """TIME_CONV: from ticks of the system counter to ns of perf's clock."""

    shift: int
    multiplier: int
    zero: int
    cycles: int = 0
    mask: int = (1 << 64) - 1

    def time(self, ticks: int) -> int:
        """Return ticks in ns (``tsc_to_perf_time``, tools/perf/util/tsc.c); 0 is no time, for ticks, too."""
        if not ticks:
            return 0
        ticks = self.cycles + (ticks - self.cycles & self.mask)
        whole, fraction = ticks >> self.shift, ticks & (1 << self.shift) - 1
        return self.zero + whole * self.multiplier + (fraction * self.multiplier >> self.shift) & (1 << 64) - 1

    def pack(self) -> bytes:
        """Pack the body of a TIME_CONV record (``struct perf_record_time_conv``, tools/lib/perf, 6.12)."""
        fields = self.shift, self.multiplier, self.zero, self.cycles, self.mask
        return struct.pack("<5QBB6x", *fields, True, False)  # the clock's zero is known, its counter has 64 bits


def read_time_conversion(body: bytes) -> TimeConversion | None:
    """Read a TIME_CONV record; None if it says that time is not to be converted.

    Raises:
        ValueError: damage.

    """
    shift, multiplier, zero = struct.unpack_from("<QQQ", body)
    if shift > 63 or not multiplier:
        raise ValueError("its conversion of times is damaged")
    if len(body) < 42:
        return TimeConversion(shift=shift, multiplier=multiplier, zero=zero)
    cycles, mask = struct.unpack_from("<QQ", body, 24)
    has_zero, is_short = body[40], body[41]
    if not has_zero:
        return None
    if not is_short:
        return TimeConversion(shift=shift, multiplier=multiplier, zero=zero)
    return TimeConversion(shift=shift, multiplier=multiplier, zero=zero, cycles=cycles, mask=mask)
