"""What a recording says of each executed instruction, and what decoders say of the perf.data that was made of it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U64
from prologue.live.memory.sources import open_memory
from prologue.live.system.programs import decoder_text, running_program
from prologue.live.system.running_system import RunningSystem, module_files
from prologue.trace.readers.recording import TraceRecords
from prologue.trace.readers.sources import open_trace

_FIXMAP = 0xFFFFFFFF00000000  # KPTI maps its entry code there, where kcore has none


class Executed(NamedTuple):
    """Each instruction of a CPU in its order: address, time in ns, thread; shape (n,)."""

    vaddrs: U64
    times: U64
    tids: npt.NDArray[np.int64]


def executed_as_recorded(records: TraceRecords, levels: tuple[int, ...] = (1,)) -> dict[int, Executed]:
    """Of each CPU, what the kernel did at these levels."""
    kept = records[(records["count"] > 0) & np.isin(records["level"], levels)]
    return {cpu: _of_records(kept[kept["cpu"] == cpu]) for cpu in np.unique(kept["cpu"]).tolist()}


def executed_as_decoded(directory: Path, vmlinux: Path, modules: Path | None = None) -> dict[int, Executed]:
    """Of each CPU, as our reader decodes it."""
    with open_trace(str(directory)) as trace:
        assert trace.decoded is not None
        memory = open_memory(str(directory))
        program = running_program(RunningSystem(vmlinux, memory, None if modules is None else module_files(modules)))
        trace.decoded.follow(decoder_text(program, memory))
        batches = list(trace.batches)
    ranges = np.concatenate([batch.ranges for batch in batches])
    tids = np.array([max(task.tid, 0) for task in batches[-1].tasks], np.int64)  # the idle task is nobody
    return {cpu: executed_of_ranges(ranges[ranges["cpu"] == cpu], tids) for cpu in np.unique(ranges["cpu"]).tolist()}


def _of_records(own: TraceRecords) -> Executed:
    return _each(own["start"], own["count"].astype(np.int64), own["time"], own["task"].astype(np.int64))


def executed_of_ranges(own: npt.NDArray[Any], tids: npt.NDArray[np.int64]) -> Executed:
    sizes = (own["end"] - own["start"]).astype(np.int64) // 4
    return _each(own["start"], sizes, own["time"], tids[own["task"]])


def _each(starts: U64, counts: I64, times: U64, tids: I64) -> Executed:
    inside = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    vaddrs = np.repeat(starts, counts) + np.uint64(4) * inside.astype(np.uint64)
    return Executed(vaddrs, np.repeat(times, counts), np.repeat(tids, counts))


class TakenBranch(NamedTuple):
    """A step that perf prints: CPU, thread after it, the last instruction before it, the first one after it."""

    cpu: int
    tid: int
    ip: int
    addr: int


def branches_as_recorded(records: TraceRecords, levels: tuple[int, ...] = (1,)) -> Iterator[TakenBranch]:
    """Every branch and exception of the kernel, by CPU, without text that perf does not have.

    An interrupt that comes with the return to user space is a step of its own: perf joins what it has on both sides.
    """
    known = (records["count"] > 0) & (records["start"] < _FIXMAP)
    for cpu in np.unique(records["cpu"]).tolist():
        own = records[known & (records["cpu"] == cpu)]
        names = ("start", "count", "level", "task")
        rows = list(zip(*(own[name].tolist() for name in names), strict=True))
        for (start, count, level, _), (addr, _, to, tid) in pairwise(rows):
            ip = start + 4 * count - 4
            if level in levels and to in levels and addr != ip + 4:
                yield TakenBranch(cpu, tid, ip, addr)


def branches_as_perf_prints(directory: Path, *options: str, perf: str = "perf") -> Iterator[TakenBranch]:
    """The same; those to the next instruction, which a recording does not tell from going on, are left out."""
    command = [perf, "script", "-i", str(directory), "--itrace=b", "-F", "tid,cpu,ip,addr", *options]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = (line.replace("=>", "").split() for line in said.splitlines())
    made = [TakenBranch(int(cpu.strip("[]")), int(tid), int(ip, 16), int(addr, 16)) for tid, cpu, ip, addr in rows]
    yield from sorted((one for one in made if one.ip and one.addr not in (0, one.ip + 4)), key=lambda one: one.cpu)
