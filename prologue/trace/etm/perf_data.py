"""A recording as the perf.data that ``perf record -e cs_etm//k -a`` would have left of it.

Form: tools/perf/Documentation/perf.data-file-format.txt, tools/perf/util/cs-etm.h and cs-etm.c (6.12).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from prologue.live.memory.ranges import TOP
from prologue.live.memory.state import KernelTask
from prologue.perf.address_spaces import FileMap
from prologue.perf.coresight import TimeConversion, TraceUnit, pack_units
from prologue.perf.layout import (
    AUX,
    COMM_EXEC,
    EXCLUDE_USER,
    FORK_EXEC,
    HOST_KERNEL,
    HOST_USER,
    KERNEL_NAME,
    MMAP2,
    MMAP_BUILD_ID,
    PROT_EXEC,
    PROT_READ,
    Feature,
    RecordKind,
    Sample,
)
from prologue.perf.writing import (
    AuxData,
    EventAttributes,
    event_description,
    machine_features,
    padded,
    record,
    sample_id,
    write_perf_file,
)
from prologue.trace.coresight.frames import pack_frames
from prologue.trace.etm.processes import TracedProcesses, hide
from prologue.trace.etm.stream import EtmStream, ProgramText, encode
from prologue.trace.etm.unit import is_vhe, perf_unit
from prologue.trace.readers.recording import RecordingHeader, TraceRecords

_PMU: Final = 8  # type of the event; the kernel numbers its PMUs in the order of registration
_CONTEXT, _CONTEXT2, _TIMES = 1 << 14, 1 << 15, 1 << 28  # of its config (include/linux/coresight-pmu.h, 6.12)
_NAMES: Final = {False: "cs_etm//", True: "cs_etm//k"}  # by whether only the kernel is traced
_MAP_PRIVATE: Final = 2
_NANOSECONDS: Final = TimeConversion(shift=0, multiplier=1, zero=0)


class KernelMap(NamedTuple):
    """A kernel or a module in memory: its name to perf, its first address, its size in bytes."""

    name: str
    start: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedKernel:
    """The kernel that ran: the words that it executed, and its description in perf.data.

    ``place`` is from the symbol ``_text`` on, which KASLR moved; ``modules`` are the modules with text.
    """

    text: ProgramText
    place: KernelMap
    modules: Sequence[KernelMap] = ()
    processes: TracedProcesses = TracedProcesses()  # noqa: RUF009 - frozen, and nothing of it is changed
    build_id: str = ""


def write_perf_trace(
    out: Path,
    header: RecordingHeader,
    records: TraceRecords,
    kernel: TracedKernel,
    *,
    levels: tuple[int, ...],
) -> dict[int, EtmStream]:
    """Write the file.

    Args:
        out: the file.
        header: of the recording.
        records: of the recording, with notes; at least one.
        kernel: the kernel that ran.
        levels: exception levels that are traced.

    Returns:
        The stream of each CPU.

    Raises:
        OutputError: ``out`` cannot be written.

    """
    vhe, timed = is_vhe(records), header.clocked
    cpus = np.unique(records["cpu"]).tolist()
    units = [perf_unit(cpu, vhe=vhe, timed=timed) for cpu in cpus]
    streams, buffers, buffer_records = dict[int, EtmStream](), list[AuxData](), list[bytes]()
    processes = kernel.processes
    known = records if processes.earlier is None else hide(records, processes.earlier)
    for unit in units:
        of_cpu = records["cpu"] == unit.cpu
        streams[unit.cpu] = encode(known[of_cpu], kernel.text, levels, unit, processes=processes.texts)
        buffer = AuxData(unit.cpu, pack_frames(streams[unit.cpu].data, unit.trace_id))
        buffers.append(buffer)
        buffer_records += _buffer_records(buffer, records[of_cpu])
    config = (_CONTEXT2 if vhe else _CONTEXT) | (_TIMES if timed else 0)
    user = 0 in levels
    event = EventAttributes(type=_PMU, config=config, period=1, sample=Sample.IP, flags=0 if user else EXCLUDE_USER)
    features = machine_features(build_id=kernel.build_id, machine="aarch64", cpus=max(header.cpus, cpus[-1] + 1))
    features[Feature.EVENTS] = event_description(event, _NAMES[not user])
    write_perf_file(out, event, [*_heading(units, kernel, timed=timed), *buffer_records], features, buffers)
    return streams


def _heading(units: Sequence[TraceUnit], kernel: TracedKernel, *, timed: bool) -> Iterator[bytes]:
    """Yield records that perf itself makes before a trace begins."""
    if timed:  # before the trace units: perf takes it when it reads these
        yield record(RecordKind.TIME_CONV, 0, _NANOSECONDS.pack())
    yield record(RecordKind.AUXTRACE_INFO, 0, pack_units(units, _PMU))
    yield _map(kernel.place._replace(name=f"{KERNEL_NAME}{kernel.place.name}"), kernel.place.start)
    for module in kernel.modules:
        yield _map(module._replace(name=f"[{module.name}]"), 0)
    for task in kernel.processes.tasks:
        yield from _task_records(task, kernel.processes)


def _task_records(task: KernelTask, processes: TracedProcesses) -> Iterator[bytes]:
    """Yield what perf says of a task that is there: its parent, its name, its files; a last execve has a time."""
    time = processes.executed.get(task.pid, 0)
    sample = sample_id(pid=task.pid, tid=task.tid, time=time)
    parent = task.parent if task.tid == task.pid else task.pid
    yield record(RecordKind.FORK, FORK_EXEC, struct.pack("<iiiiQ", task.pid, parent, task.tid, parent, time) + sample)
    named = struct.pack("<ii", task.pid, task.tid) + padded(task.comm)
    yield record(RecordKind.COMM, COMM_EXEC if time else 0, named + sample)
    for mapped in processes.maps.get(task.pid, ()) if task.tid == task.pid else ():
        yield _file_map(task.pid, mapped, sample)


def _file_map(pid: int, mapped: FileMap, sample: bytes) -> bytes:
    build_id = bytes.fromhex(mapped.build_id)[:20]
    identity = struct.pack("<B3x20s", len(build_id), build_id) if build_id else bytes(24)
    place = (mapped.start, mapped.end - mapped.start, mapped.offset)
    body = MMAP2.pack(pid, pid, *place, identity, PROT_READ | PROT_EXEC, _MAP_PRIVATE)
    return record(RecordKind.MMAP2, HOST_USER | MMAP_BUILD_ID * bool(build_id), body + padded(mapped.path) + sample)


def _map(place: KernelMap, offset: int) -> bytes:
    body = struct.pack("<iiQQQ", -1, 0, place.start & TOP, place.size, offset & TOP) + padded(place.name)
    return record(RecordKind.MMAP, HOST_KERNEL, body + sample_id())


def _buffer_records(buffer: AuxData, records: TraceRecords) -> Iterator[bytes]:
    """Yield the kernel's records of one AUX buffer: the start of tracing, and the end of its data."""
    for kind, row, head in (
        (RecordKind.ITRACE_START, 0, None),
        (RecordKind.AUX, -1, AUX.pack(0, len(buffer.data), 0)),
    ):
        task, time = int(records["task"][row]), int(records["time"][row])
        body = struct.pack("<ii", task, task) if head is None else head
        yield record(kind, 0, body + sample_id(pid=task, tid=task, time=time, cpu=buffer.cpu))
