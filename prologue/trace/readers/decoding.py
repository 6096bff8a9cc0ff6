"""Traces that have to be decoded first: perf.data with CoreSight, and OpenCSD's snapshot directories.

A decoder follows the program's text, so they are read only after it is known what that is (``DecodedTrace.follow``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from prologue.arrays import U32
from prologue.errors import InputError, InternalError
from prologue.live.pokes.recording import Flag
from prologue.live.pokes.sources import read_any
from prologue.perf.address_spaces import AddressSpaces
from prologue.perf.coresight import TraceProtocol, TraceUnit
from prologue.perf.session import AuxFragment, TaskNames, TraceSession, read_session
from prologue.trace.coresight.code import TextChanges, UserCode
from prologue.trace.coresight.elements import Elements
from prologue.trace.coresight.library import ALIGNED, LibraryVersion, require_library
from prologue.trace.coresight.process import (
    Begin,
    ByteCounts,
    CodeMemory,
    DecodeJob,
    DecoderText,
    Failed,
    TracePart,
    TraceSource,
    decode,
)
from prologue.trace.coresight.snapshot import SnapshotBuffer, read_snapshot
from prologue.trace.ranges import NO_CPU, Batch, BatchNames, Tally, TracedTask
from prologue.trace.readers.coverage import PartCoverage
from prologue.trace.readers.decoder_reports import ElementNaming
from prologue.trace.readers.elements import ElementReader

_CHECKING: Final = (1, 5, 4)
_NONSECURE, _EL2 = 6, 4  # bits of ocsd_mem_space_acc_t
_OLD_UNITS: Final = "an ETMv3 or PTM, of which nothing is decoded here: only ETMv4 and ETE are"


@dataclass(slots=True, kw_only=True)
class DecodedTrace:
    """A trace, and its facts about the kernel that ran.

    ``kernel_symbols`` are run-time addresses of some symbols; ``kcore`` is the directory that holds kcore_dir;
    ``poked`` is the file if it has text pokes of the time of the trace, and ``changes`` are these, for the decoder.
    ``own_memory``: the trace has the text in it. ``is_vhe``: its kernel asked for CONTEXTIDR_EL2. ``spaces`` have the
    maps of processes, None if ranges do not have their process. ``user_code`` is the code of processes that the decoder
    follows, and ``why_not`` explains why there is none at an address of a thread.
    """

    version: LibraryVersion
    jobs: tuple[tuple[DecodeJob, tuple[ElementNaming, ...]], ...]
    account: Tally
    kernel_symbols: dict[str, int] = field(default_factory=dict)
    kcore: Path | None = None
    own_memory: bool = False
    is_vhe: bool = False
    spaces: AddressSpaces | None = None
    tasks: TaskNames | None = None
    user_code: UserCode | None = None
    why_not: Callable[[int, int], str] | None = None
    build_id: str = ""
    poked: Path | None = None
    changes: TextChanges | None = None
    progress: Callable[[int, int], None] | None = None
    _memory: tuple[CodeMemory, ...] | None = None

    @property
    def authenticates(self) -> bool:
        """True if every decoder is one for cores with pointer authentication."""
        return all(
            unit.protocol is TraceProtocol.ETE or unit.idr1 >> 4 & 15 >= 4
            for job, _ in self.jobs for source in job.sources for unit in source.units
        )  # fmt: skip

    @property
    def kernel_level(self) -> int | None:
        """The level whose CONTEXTIDR is traced: unless told otherwise, perf takes the kernel's (``cs-etm.c``)."""
        units = [unit for job, _ in self.jobs for source in job.sources for unit in source.units]
        if self.is_vhe:
            return 2
        return 1 if units and all(unit.has_process for unit in units) and not self.own_memory else None

    def follow(self, pieces: Sequence[tuple[int, U32]]) -> None:
        """Decode with this text: address and words of each piece."""
        space = _EL2 if self.is_vhe else _NONSECURE
        self._memory = tuple(CodeMemory(vaddr, np.ascontiguousarray(words), space) for vaddr, words in pieces)

    @property
    def memory(self) -> tuple[CodeMemory, ...]:
        """The text that the decoder follows."""
        return self._memory or ()

    def batches(self) -> Iterator[Batch]:
        """Yield the ranges that ran, recording after recording.

        Raises:
            InputError: the trace has no ranges.

        """
        has_ranges, names = False, BatchNames()
        total = sum(part.size for job, _ in self.jobs for part in job.parts)
        done = 0
        for job, namings in self.jobs:
            for batch in self._of_job(job, namings, names, done, total):
                has_ranges |= len(batch.ranges) > 0
                yield batch
            done += sum(part.size for part in job.parts)
        if self.progress:
            self.progress(total, total)
        if not has_ranges:
            why = "; ".join(self.account.lines()[:3])
            raise InputError(f"has no instruction ranges{f' ({why})' if why else ''}", path=self.jobs[0][0].path)

    def _of_job(
        self, job: DecodeJob, namings: tuple[ElementNaming, ...], names: BatchNames, done: int, total: int
    ) -> Iterator[Batch]:
        if not self.own_memory:
            if self._memory is None:
                raise InternalError("a trace is read before its program is known")
            job = replace(job, memory=self._memory, changes=self.changes, user=self.user_code)
        reader = ElementReader(self.account, namings[0], names, self.why_not)
        for message in decode(job, self.version):
            if isinstance(message, Begin):
                part = job.parts[message.part]
                reader.naming = namings[part.source]
                reader.begin(PartCoverage(job, part, reader.naming.cpu))
                if self.progress:
                    self.progress(done, total)
                done += part.size
            elif isinstance(message, Elements):
                ranges = reader.ranges(message)
                if len(ranges):
                    yield Batch(ranges, names.tasks, names.dsos)
            elif isinstance(message, DecoderText):
                reader.text(message)
            elif isinstance(message, ByteCounts):
                reader.counted(message)
            elif isinstance(message, Failed):
                reader.failed(message)
        reader.end()


def open_snapshot(directory: Path, account: Tally) -> DecodedTrace:
    """Open the buffers of a snapshot directory; its dumps are the text.

    Raises:
        InputError: damaged; without a buffer that can be decoded; or the library is missing.

    """
    buffers = read_snapshot(directory)
    for buffer in buffers:
        for unit in buffer.left_out:
            account.add(f"trace units left out: {unit}")
        if buffer.left_out and not buffer.source.units and buffer.path.is_file():
            account.count_bytes(NO_CPU, buffer.path.stat().st_size, buffer.path.stat().st_size)
    usable = [buffer for buffer in buffers if buffer.source.units and buffer.path.is_file()]
    if not usable:
        units = sorted({unit for buffer in buffers for unit in buffer.left_out})
        reason = f": its trace units are {', '.join(units)}" if units else ""
        raise InputError(f"has no trace of an ETMv4 or ETE of an A-profile core{reason}", path=directory)
    version = require_library()
    jobs = []
    for buffer in usable:
        naming = ElementNaming(
            cpu=int,  # a trace ID stands for its CPU
            time=int,
            task=lambda process, _: TracedTask("", process, process),  # the trace has the number only
            process_in_vmid=any(unit.process_in_vmid for unit in buffer.source.units),
            checks_images=version >= _CHECKING,
            return_stack=any(unit.has_return_stack for unit in buffer.source.units),
        )
        jobs.append((_snapshot_job(buffer), (naming,)))
    return DecodedTrace(version=version, jobs=tuple(jobs), account=account, own_memory=True)


def _snapshot_job(buffer: SnapshotBuffer) -> DecodeJob:
    part = TracePart(0, 0, buffer.path.stat().st_size)
    mixed = not buffer.left_out
    return DecodeJob(
        path=buffer.path, sources=(buffer.source,), parts=(part,), memory=buffer.memory, checks=False, mixed=mixed
    )


def open_perf_trace(path: Path, account: Tally) -> DecodedTrace:
    """Read the records of perf.data, or of its directory.

    Raises:
        InputError: damaged; without a trace that can be decoded; or the library is missing.

    """
    session = read_session(path)
    for name, count in session.counts.items():
        account.add(name, count)
    account.count_bytes(NO_CPU, session.unnamed_bytes, session.unnamed_bytes)
    streams = _Streams(session, account)
    version = require_library()
    sources, parts, cpus = streams.sources()
    if not parts:
        lost = session.unnamed_bytes
        why = f": no AUX record says what its {lost:,} bytes of trace are" if lost and not session.fragments else ""
        raise InputError(f"has no trace that can be decoded{why}", path=session.path)
    namings = tuple(_naming(session, version, source, known) for source, known in zip(sources, cpus, strict=True))
    if not all(unit.kernel_time for source in sources for unit in source.units):
        account.add("trace whose timestamps are not perf's clock: times are left out")
    elif any(naming.time == _no_time for naming in namings):
        account.add("trace without a clock's conversion (TIME_CONV): times are left out")
    changes = _changes(session, path, namings, account)
    kcore = path if path.is_dir() and (path / "kcore_dir" / "kcore").exists() else None
    has_tasks = any(unit.has_process for source in sources for unit in source.units)
    job = DecodeJob(path=session.path, sources=tuple(sources), parts=tuple(parts), memory=())
    return DecodedTrace(
        version=version,
        jobs=((job, namings),),
        account=account,
        kernel_symbols=session.kernel_symbols,
        kcore=kcore,
        is_vhe=any(unit.process_in_vmid for source in sources for unit in source.units),
        spaces=session.spaces if has_tasks and session.spaces else None,
        tasks=session.tasks,
        build_id=session.build_id,
        poked=None if changes is None else path,
        changes=changes,
    )


def _changes(session: TraceSession, path: Path, namings: Sequence[ElementNaming], account: Tally) -> TextChanges | None:
    """Return the text pokes of the file, if the trace's times are those of perf; otherwise count them."""
    if not session.pokes:
        return None
    clock = namings[0].time
    stamped = all(unit.has_times for unit in session.units)
    if not stamped or clock == _no_time or any(naming.time != clock for naming in namings):
        account.add(
            "changes of text while tracing (text pokes), which the decoder did not follow: the trace has no times",
            session.pokes,
        )
        return None
    rows = read_any(path).rows
    rows = rows[rows["flags"] & np.uint32(Flag.OLD_UNKNOWN) == 0]
    account.add("words of text written while tracing (text pokes): followed", len(rows))
    return TextChanges(times=rows["time"], vaddrs=rows["address"], old=rows["old"], new=rows["new"], clock=clock)


def _naming(
    session: TraceSession, version: LibraryVersion, source: TraceSource, known: dict[int, int]
) -> ElementNaming:
    conversion = session.conversion
    own_clock = conversion is not None and all(unit.kernel_time for unit in source.units)
    time: Callable[[int], int] = conversion.time if conversion is not None and own_clock else _no_time

    def task(tid: int, when: int) -> TracedTask:
        return TracedTask(session.tasks.name(tid, when), session.tasks.pid(tid), tid)

    only = next(iter(known.values())) if not source.framed else None

    def cpu(number: int) -> int:
        return only if only is not None else known.get(number, -1)

    in_vmid = any(unit.process_in_vmid for unit in source.units)
    return ElementNaming(
        cpu=cpu,
        time=time,
        task=task,
        process_in_vmid=in_vmid,
        checks_images=version >= _CHECKING,
        return_stack=any(unit.has_return_stack for unit in source.units),
        names_idle=True,  # kernels with a driver for ETMv4 write all processes (CORESIGHT_SOURCE_ETM4X, 5.10-7.3)
    )


def _no_time(_ticks: int) -> int:
    return 0


class _Streams:
    """The streams of a file, and the trace units of each."""

    def __init__(self, session: TraceSession, account: Tally) -> None:
        self._session, self._account = session, account
        self._units = {
            unit.cpu: replace(unit, traceidr=session.ids[unit.cpu].trace_id) if unit.cpu in session.ids else unit
            for unit in session.units
        }
        if session.units and all(unit.protocol is TraceProtocol.ETM3 for unit in session.units):
            raise InputError(f"was recorded by {_OLD_UNITS}", path=session.path)

    def sources(self) -> tuple[list[TraceSource], list[TracePart], list[dict[int, int]]]:
        """Return the streams, the recordings, and for each stream the CPU of each trace ID."""
        rows: dict[tuple[bool, int], int] = {}
        sources, parts, cpus = list[TraceSource](), list[TracePart](), list[dict[int, int]]()
        for fragment in self._session.fragments:
            known = self._session.ids.get(fragment.cpu)
            # -1 if the file names no sink: all send to the same.
            sink = -1 if known is None or known.sink is None else known.sink
            key = (fragment.raw, fragment.cpu if fragment.raw else sink)
            if key not in rows:
                units = self._usable(fragment, sink)
                rows[key] = len(sources) if units else -1
                if units:
                    framed = not fragment.raw
                    sources.append(TraceSource(units, framed, ALIGNED if framed else 0))
                    cpus.append({unit.trace_id: unit.cpu for unit in units})
            if rows[key] < 0:
                self._account.add("recordings of CPUs whose trace unit is not described: a gap")
                self._account.count_bytes(fragment.cpu, fragment.size, fragment.size)
            else:
                parts.append(TracePart(rows[key], fragment.at, fragment.size))
        return sources, parts, cpus

    def _usable(self, fragment: AuxFragment, sink: int) -> tuple[TraceUnit, ...]:
        """Return the trace units that may have sent a fragment, each ID once."""
        wanted = [self._units[fragment.cpu]] if fragment.cpu in self._units else []
        if not fragment.raw:
            ids = self._session.ids  # the IDs that perf wrote for other CPUs are not in use then
            wanted = [
                unit for unit in self._units.values()
                if not ids or (unit.cpu in ids and (sink < 0 or ids[unit.cpu].sink == sink))
            ]  # fmt: skip
        units: dict[int, TraceUnit] = {}
        for unit in wanted:
            if unit.protocol is TraceProtocol.ETM3:
                self._account.add(f"trace units left out: {_OLD_UNITS}")
            elif unit.trace_id in units:
                self._account.add("trace units whose trace ID another one has")
            elif fragment.raw or 0 < unit.trace_id < 0x70:
                units[unit.trace_id] = unit
        return tuple(units.values())
