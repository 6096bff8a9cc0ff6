"""The trace unit that a recording is written for: an ETMv4.4 without a return stack, by its registers.

Registers: Arm IHI 0064, "Programmers' model".
"""

from __future__ import annotations

from typing import Final

import numpy as np

from prologue.live.memory.ranges import KERNEL_HALF
from prologue.perf.coresight import TraceProtocol, TraceUnit
from prologue.trace.readers.recording import TraceRecords

_CONTEXT, _VMID, _TIMES, _VMIDS_ARE_PROCESSES = 1 << 6, 1 << 7, 1 << 11, 1 << 15  # of TRCCONFIGR
_IDR0, _IDR1 = 0x28000EA1, 0x4100F443  # timestamps of 64 bits; ETMv4.4: as cores from Armv8.3 on have it
_IDR2: Final = 0x088  # addresses of 64 bits, context IDs of 32; then the size of VMIDs
_VMID_16, _VMID_32 = 2 << 10, 4 << 10
_FIRST_ID: Final = 0x10
HIGHEST_TRACED_CPU: Final = 0x6F - _FIRST_ID
"""The last CPU that has a trace ID in frames of a formatter."""


def is_vhe(records: TraceRecords) -> bool:
    """Return whether the host's kernel ran at EL2, as only VHE has it."""
    return bool(((records["level"] == 2) & (records["start"] >= np.uint64(KERNEL_HALF)) & (records["count"] > 0)).any())


def bare_unit(cpu: int, *, vmids: bool) -> TraceUnit:
    """Return a trace unit that traces no processes and no times; with ``vmids`` VTTBR_EL2's VMID."""
    return _unit(cpu, _VMID if vmids else 0, _VMID_16)


def perf_unit(cpu: int, *, vhe: bool, timed: bool) -> TraceUnit:
    """Return a trace unit as perf sets it up: processes are in CONTEXTIDR_EL1, under VHE in CONTEXTIDR_EL2.

    ``timed``: with timestamps, in ns.
    """
    processes = _VMID | _VMIDS_ARE_PROCESSES if vhe else _CONTEXT
    return _unit(cpu, processes | (_TIMES if timed else 0), _VMID_32 if vhe else _VMID_16)


def _unit(cpu: int, configr: int, vmid_size: int) -> TraceUnit:
    return TraceUnit(
        cpu=cpu,
        protocol=TraceProtocol.ETM4,
        configr=configr,
        traceidr=_FIRST_ID + cpu,
        idr0=_IDR0,
        idr1=_IDR1,
        idr2=_IDR2 | vmid_size,
        kernel_time=bool(configr & _TIMES),
    )
