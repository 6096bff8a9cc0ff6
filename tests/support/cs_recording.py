"""A walk through the made kernel of ``tests.trace.made`` as an ETMv4 stream, and as the ranges that ran."""

from __future__ import annotations

from typing import Any

import numpy as np

from prologue.trace.etm.stream import ProgramText, encode
from prologue.trace.etm.unit import bare_unit
from prologue.trace.ranges import GAP
from prologue.trace.readers.recording import RECORD
from tests.support.cs_etm import CsTrace
from tests.trace.made import KERNEL

READ, ZERO = KERNEL.at("vfs_read"), KERNEL.at("read_zero")
ROUND = ((READ, 4), (READ + 16, 1), (ZERO, 5), (ZERO + 24, 1), (READ + 20, 2), (READ + 32, 2))
"""Start and count of the ranges of one call of vfs_read, which is called again and again; a CBZ ends the first one."""


TEXT = ProgramText([(KERNEL.base, np.array(KERNEL.words, np.uint32))])


def walk(rounds: int, *, vmid: int = -1, level: int = 1) -> np.ndarray[Any, np.dtype[Any]]:
    """The records of so many calls."""
    records = np.zeros(rounds * len(ROUND), RECORD)
    records["start"], records["count"] = np.tile(np.array(ROUND, np.uint64), (rounds, 1)).T
    records["level"], records["vmid"] = level, vmid
    records["flags"][:1] = GAP
    return records


def stream(rounds: int, **how: Any) -> bytes:
    """The same as packets."""
    unit = bare_unit(0, vmids="vmid" in how)
    return bytes(encode(walk(rounds, **how), TEXT, (0, 1, 2), unit).data)


def stamped(data: bytes, ticks: int = 1000) -> bytes:
    """A stream with a timestamp after its first address and context."""
    at = data.index(b"\x85") + 9
    at += 5 if data[at] & 0x80 else 1
    return data[:at] + b"\x02" + bytes([ticks & 0x7F | 0x80, ticks >> 7]) + data[at:]


def trace(rounds: int = 20, **how: Any) -> CsTrace:
    """Two CPUs that do this."""
    data = stream(rounds)
    return CsTrace(streams={0: data, 1: data}, text=(KERNEL.base, 4 * len(KERNEL.words)), **how)


def expected(rounds: int) -> list[tuple[int, int]]:
    """Start and end of each range of a CPU."""
    return [(start, start + 4 * count) for start, count in ROUND] * rounds


def with_process(data: bytes, process: int, *, vhe: bool = False) -> bytes:
    """A stream whose first address packet (85, 8 bytes, the context) also says the process.

    Without VHE that is CONTEXTIDR_EL1; with it CONTEXTIDR_EL2, in place of the VMID, at EL2.
    """
    at = data.index(b"\x85") + 9
    if vhe:
        return data[:at] + bytes([0x32 | 0x40]) + process.to_bytes(4, "little") + data[at + 1 :]
    return data[:at] + bytes([data[at] | 0x80]) + process.to_bytes(4, "little") + data[at + 1 :]
