"""A perf.data file with CoreSight traces: the places of the trace's bytes, and the tasks that ran meanwhile."""

from __future__ import annotations

import struct
from bisect import bisect_right, insort_left
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from prologue.perf.address_spaces import AddressSpaces, FileMap
from prologue.perf.container import PerfFile, data_file, mapped_build_id, open_perf_data
from prologue.perf.coresight import (
    HardwareId,
    TimeConversion,
    TraceUnit,
    read_hardware_id,
    read_time_conversion,
    read_units,
)
from prologue.perf.layout import (
    AUX,
    AUXTRACE,
    COMM_EXEC,
    CPU_MODE,
    FORK_EXEC,
    HOST_KERNEL,
    HOST_USER,
    KERNEL_NAME,
    MMAP2,
    MMAP_DATA,
    PROT_EXEC,
    RECORD,
    AuxFlag,
    OtherDataError,
    RecordKind,
)
from prologue.perf.records import PerfRecord, SampleId


class AuxRecord(NamedTuple):
    """A recording into an AUX buffer; ``offset`` counts from the buffer's start of tracing."""

    offset: int
    size: int
    flags: int
    sample: SampleId


@dataclass(frozen=True, slots=True, kw_only=True)
class AuxFragment:
    """The bytes of a recording: ``size`` bytes of the file from ``at`` on; a decoder begins anew with each."""

    at: int
    size: int
    cpu: int
    time: int  # ns, when it ended
    raw: bool  # one unframed source, of ``cpu``


class AuxBuffer(NamedTuple):
    """An AUXTRACE record: ``size`` bytes at ``at`` in the file, which are those from ``offset`` on of its stream."""

    offset: int
    size: int
    at: int


@dataclass(slots=True, kw_only=True)
class TaskNames:
    """Names and processes of threads; a thread may change its name."""

    _pids: dict[int, int] = field(default_factory=dict)
    _reused: set[int] = field(default_factory=set)  # numbers of threads of several processes
    _names: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    _executed: dict[int, int] = field(default_factory=dict)  # by thread: when the first program was executed
    _forks: list[tuple[int, int, int]] = field(default_factory=list)  # time, thread, its parent

    def named(self, pid: int, tid: int, name: str, time: int, *, executed: bool = False) -> None:
        """Record a name, that of a program if it was ``executed`` then."""
        self.known(pid, tid)
        self._names.setdefault(tid, []).append((time, name))
        if executed:
            self._executed[tid] = min(time, self._executed.get(tid, time))

    def forked(self, pid: int, tid: int, parent: int, time: int) -> None:
        """Record a new thread, which has its parent's name."""
        self.known(pid, tid)
        self._forks.append((time, tid, parent))

    def name(self, tid: int, time: int) -> str:
        """Return the name at that time, the last for time 0; empty if not known.

        Before the first name it is that one, except that of a program which was executed then.
        """
        if tid == 0:
            return "swapper"
        names = self._names.get(tid)
        if not names:
            return ""
        row = bisect_right(names, time, key=_when) - 1 if time else len(names) - 1
        if row < 0 and self._executed.get(tid) == names[0][0]:
            return ""
        return names[max(row, 0)][1]

    def pid(self, tid: int) -> int:
        """Return the process; -1 if not known."""
        return 0 if tid == 0 else self._pids.get(tid, -1)

    def only_pid(self, tid: int) -> int | None:
        """Return the process, which a thread without a record is itself; None if several had such a thread."""
        return None if tid in self._reused else self._pids.get(tid, tid)

    def known(self, pid: int, tid: int) -> None:
        """Record the process of a thread."""
        if self._pids.setdefault(tid, pid) != pid:
            self._reused.add(tid)
            self._pids[tid] = pid

    def sort(self) -> None:
        """Put names in the order of time, and let new threads inherit them: perf does not write them so."""
        for names in self._names.values():
            names.sort(key=_when)
        for time, tid, parent in sorted(self._forks, key=_when):
            if name := self.name(parent, time or 1):  # perf gives time 0 to tasks that were there before
                insort_left(self._names.setdefault(tid, []), (time, name), key=_when)


def _when(entry: tuple[Any, ...]) -> int:
    time: int = entry[0]
    return time


@dataclass(slots=True, kw_only=True)
class TraceSession:
    """All that a reader of the trace needs. ``fragments`` are in the order of time.

    ``kernel_symbols`` are run-time addresses of ``_text`` or ``_stext``. ``counts`` are of events lost or left out.
    """

    path: Path  # of the file with the data
    build_id: str = ""
    units: tuple[TraceUnit, ...] = ()
    fragments: tuple[AuxFragment, ...] = ()
    ids: dict[int, HardwareId] = field(default_factory=dict)  # by CPU; empty if the registers have them
    conversion: TimeConversion | None = None
    tasks: TaskNames = field(default_factory=TaskNames)
    spaces: AddressSpaces = field(default_factory=AddressSpaces)
    kernel_symbols: dict[str, int] = field(default_factory=dict)
    pokes: int = 0
    unnamed_bytes: int = 0  # of trace in the file, that no AUX record names
    counts: Counter[str] = field(default_factory=Counter)


def read_session(path: Path) -> TraceSession:
    """Read the records of a file of ``perf record``, or of its directory; the trace's data stay where they are.

    Raises:
        InputError: not such a file, damaged, or without a CoreSight trace.

    """
    with open_perf_data(path) as file:
        reader = _Reader(file, TraceSession(path=data_file(path)))
        for record in file.records():
            handler = reader.handlers.get(record.kind)
            if handler is not None:
                handler(record)
        return reader.finish()


class _Reader:
    def __init__(self, file: PerfFile, session: TraceSession) -> None:
        self._file, self._session = file, session
        self._aux: list[AuxRecord] = []
        self._buffers: dict[tuple[int, int], list[AuxBuffer]] = {}  # by CPU and thread
        self._is_traced = False
        self.handlers: dict[int, Callable[[PerfRecord], None]] = {
            RecordKind.AUXTRACE_INFO: self._info,
            RecordKind.AUX: self._aux_record,
            RecordKind.AUXTRACE: self._buffer,
            RecordKind.AUX_OUTPUT_HW_ID: self._hardware_id,
            RecordKind.TIME_CONV: self._time_conversion,
            RecordKind.MMAP: self._map,
            RecordKind.MMAP2: self._map2,
            RecordKind.COMM: self._comm,
            RecordKind.FORK: self._fork,
            RecordKind.LOST: self._lost,
            RecordKind.TEXT_POKE: self._poke,
        }

    def finish(self) -> TraceSession:
        """Return the session, after the last record."""
        session = self._session
        if not self._is_traced:
            raise OtherDataError("has no trace of an AUX buffer: record one with perf record -e cs_etm//k")
        session.tasks.sort()
        session.spaces.set_build_ids(self._file.build_ids)
        session.build_id, session.fragments = self._file.build_id, self._fragments()
        return session

    def _fragments(self) -> tuple[AuxFragment, ...]:
        """Place the bytes of each AUX record, in the order of time; at equal times, in that of the file."""
        for buffers in self._buffers.values():
            buffers.sort()
        placed = []
        for record in sorted(self._aux, key=lambda record: record.sample.time):
            if not record.size:
                continue
            fragment = self._place(record)
            if fragment is None:
                self._session.counts["recordings whose bytes are not in the file: a gap"] += 1
            else:
                placed.append(fragment)
        kept = sum(fragment.size for fragment in placed)
        total = sum(buffer.size for buffers in self._buffers.values() for buffer in buffers)
        self._session.unnamed_bytes = max(total - kept, 0)
        self._session.counts["bytes of trace that no AUX record names"] += self._session.unnamed_bytes
        return tuple(placed)

    def _place(self, record: AuxRecord) -> AuxFragment | None:
        sample = record.sample
        for cpu, tid in ((sample.cpu, -1), (-1, sample.tid)):
            buffers = self._buffers.get((cpu, tid), [])
            size, offset = record.size, record.offset
            if record.flags & AuxFlag.OVERWRITE:  # a snapshot: the offset is its end, and the buffer may be smaller
                row = bisect_right(buffers, offset - 1, key=lambda buffer: buffer.offset) - 1
                size = min(size, buffers[row].size) if row >= 0 else size
                offset -= size
            row = bisect_right(buffers, offset, key=lambda buffer: buffer.offset) - 1
            if row < 0 or offset + size > buffers[row].offset + buffers[row].size:
                continue
            at = buffers[row].at + offset - buffers[row].offset
            raw = bool(record.flags & AuxFlag.RAW)
            return AuxFragment(at=at, size=size, cpu=sample.cpu, time=sample.time, raw=raw)
        return None

    # records

    def _info(self, record: PerfRecord) -> None:
        self._session.units, self._is_traced = read_units(record.body), True

    def _aux_record(self, record: PerfRecord) -> None:
        offset, size, flags = AUX.unpack_from(record.body)
        aux = AuxRecord(offset, size, flags, self._file.samples.of(record.body))
        self._aux.append(aux)
        for flag, count in (
            (AuxFlag.TRUNCATED, "recordings cut short, as perf says (the buffer was full): a gap"),
            (AuxFlag.PARTIAL, "recordings with gaps, as perf says"),
            (AuxFlag.COLLISION, "recordings that another one collided with, as perf says"),
        ):
            self._session.counts[count] += bool(aux.flags & flag)

    def _buffer(self, record: PerfRecord) -> None:
        size, offset, _, _, tid, cpu = AUXTRACE.unpack_from(record.body)
        at = record.at + RECORD.size + len(record.body)
        key = (cpu, -1) if cpu >= 0 else (-1, tid)
        self._buffers.setdefault(key, []).append(AuxBuffer(offset, size, at))

    def _hardware_id(self, record: PerfRecord) -> None:
        self._session.ids[self._file.samples.of(record.body).cpu] = read_hardware_id(record.body)

    def _time_conversion(self, record: PerfRecord) -> None:
        self._session.conversion = read_time_conversion(record.body)

    def _map(self, record: PerfRecord) -> None:
        pid, _, start, size, offset = struct.unpack_from("<iiQQQ", record.body)
        name = record.body[32:].split(b"\0")[0].decode(errors="replace")
        mapped = FileMap(start=start, end=start + size, offset=offset, path=name)
        self._mapped(record, pid, mapped, is_code=not record.misc & MMAP_DATA)

    def _map2(self, record: PerfRecord) -> None:
        pid, _, start, size, offset, _, protection, _ = MMAP2.unpack_from(record.body)
        name = record.body[MMAP2.size :].split(b"\0")[0].decode(errors="replace")
        build_id = mapped_build_id(record)
        mapped = FileMap(start=start, end=start + size, offset=offset, path=name, build_id=build_id)
        self._mapped(record, pid, mapped, is_code=protection & PROT_EXEC != 0)

    def _mapped(self, record: PerfRecord, pid: int, mapped: FileMap, *, is_code: bool) -> None:
        """Record code of a process, or the address of a kernel symbol, which the kernel's own map has."""
        mode = record.misc & CPU_MODE
        if mode == HOST_KERNEL and mapped.path.startswith(KERNEL_NAME):
            self._session.kernel_symbols[mapped.path.removeprefix(KERNEL_NAME)] = mapped.offset
        elif mode == HOST_USER and is_code:
            self._session.spaces.mapped(pid, mapped, self._time(record))

    def _comm(self, record: PerfRecord) -> None:
        pid, tid = struct.unpack_from("<ii", record.body)
        name = record.body[8:].split(b"\0")[0].decode(errors="replace")
        time = self._time(record)
        executed = bool(record.misc & COMM_EXEC)
        self._session.tasks.named(pid, tid, name, time, executed=executed)
        if executed:
            self._session.spaces.executed(pid, time)

    def _fork(self, record: PerfRecord) -> None:
        pid, parent_pid, tid, parent, time = struct.unpack_from("<iiiiQ", record.body)
        if record.misc & FORK_EXEC:
            self._session.tasks.known(pid, tid)
            return
        self._session.tasks.forked(pid, tid, parent, time)
        if pid != parent_pid:
            self._session.spaces.forked(pid, parent_pid, time)

    def _lost(self, record: PerfRecord) -> None:
        self._session.counts["records that perf lost"] += struct.unpack_from("<QQ", record.body)[1]

    def _poke(self, _record: PerfRecord) -> None:
        self._session.pokes += 1

    def _time(self, record: PerfRecord) -> int:
        """Return the time of a record; 0 if perf made it up, without a time."""
        try:
            return self._file.samples.of(record.body).time
        except ValueError:
            return 0
