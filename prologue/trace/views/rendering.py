"""Text for millions of ranges: equal parts of equal ranges are made once, and numbers are written as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U64
from prologue.trace.path.known import KnownRanges, PerNumber
from prologue.trace.path.listing import Listed, Lister, objdump_lines
from prologue.trace.path.steps import lanes
from prologue.trace.ranges import GAP, NO_LEVEL, NO_VMID, Batch, TracedTask, TraceRanges
from prologue.trace.readers.intern import run_starts

PERF_HEAD: Final = b"ARM CoreSight Trace Data Assembler Dump\n"
PERF_TAIL: Final = b"End\n"
_AT_ONCE: Final = 1 << 11
"""Ranges of a piece of text: about a megabyte, so that the caches still have its parts when it is joined."""
_TRACE_ON: Final = b"CPU%d: CS_ETM_TRACE_ON packet is inserted\n"
_TRIPLES: Final = np.array([b"%03d" % k for k in range(1000)], "S3")


def pick(objects: npt.NDArray[np.object_], rows: I64) -> list[Any]:
    """Take members of an array of objects, by row."""
    picked: list[Any] = objects[rows].tolist()
    return picked


def distinct(keys: I64) -> tuple[I64, I64]:
    """Return the distinct keys among keys that mostly repeat the one before, and the row of each key in these."""
    heads = run_starts(keys)
    values, inverse = np.unique(keys[heads], return_inverse=True)
    if len(values) == 1:
        return values, np.zeros(len(keys), np.int64)
    return values, inverse[np.cumsum(heads) - 1]


def time_texts(times: U64, heads: list[bytes], rows: I64, tail: bytes = b"  ") -> list[bytes]:
    """Write each time (ns): one of ``heads`` by row, ``%9u.%09u`` of it, and ``tail``."""
    fresh = run_starts(times, rows)
    count = int(fresh.sum())
    if 2 * count < len(times):  # trace units read their clock now and then
        texts_of_runs = np.empty(count, object)
        texts_of_runs[:] = time_texts(times[fresh], heads, rows[fresh], tail)
        return pick(texts_of_runs, np.cumsum(fresh) - 1)
    seconds, nanoseconds = np.divmod(times, np.uint64(10**9))
    values, second = distinct(seconds.view(np.int64))
    keys, inverse = distinct(second * len(heads) + rows)
    texts = [heads[key % len(heads)] + b"%9d." % values[key // len(heads)] for key in keys.tolist()]
    sizes = np.array([len(text) for text in texts], np.int64)
    rendered = np.empty(len(times), object)
    for size in np.unique(sizes).tolist():
        of_size = np.flatnonzero(sizes[inverse] == size)
        same = [text if len(text) == size else bytes(size) for text in texts]
        rendered[of_size] = _fixed(same, inverse[of_size], nanoseconds[of_size], tail)
    written: list[bytes] = rendered.tolist()
    return written


def _fixed(heads: list[bytes], rows: I64, numbers: U64, tail: bytes) -> list[bytes]:
    """Write each number: one of ``heads``, all of one length, by row; nine digits of it; and ``tail``."""
    digits = [(name, "S3") for name in ("millions", "thousands", "ones")]
    whole = np.empty(len(rows), [("head", f"V{len(heads[0])}"), *digits, ("tail", f"V{max(len(tail), 1)}")])
    table = np.frombuffer(b"".join(heads), f"V{len(heads[0])}")
    whole["head"] = table[0] if len(table) == 1 else table[rows]
    upper, ones = np.divmod(numbers.astype(np.uint32), np.uint32(1000))
    millions, thousands = np.divmod(upper, np.uint32(1000))
    for (name, _), part in zip(digits, (millions, thousands, ones), strict=True):
        whole[name] = _TRIPLES[part]
    whole["tail"] = np.frombuffer(tail or b"\0", f"V{max(len(tail), 1)}")[0]
    size = len(heads[0]) + 9 + len(tail)
    if not tail:  # numpy has no field of no bytes
        return [text[:size] for text in whole.view(f"V{size + 1}").tolist()]
    texts: list[bytes] = whole.view(f"V{size}").tolist()
    return texts


def gap_rows(ranges: TraceRanges, seen: set[int]) -> I64:
    """Find rows with a gap before them, except each lane's first range; ``seen`` are lanes, and grows."""
    rows = np.flatnonzero(ranges["flags"] & np.uint8(GAP))
    kept = []
    for row, lane in zip(rows.tolist(), lanes(ranges[rows]).tolist(), strict=True):
        if lane in seen:
            kept.append(row)
        seen.add(lane)
    return np.array(kept, np.int64)


def _within(rows: I64, first: int) -> list[int]:
    """Return the rows that are in the piece of text that begins with row ``first``."""
    rows_here: list[int] = rows[(rows >= first) & (rows < first + _AT_ONCE)].tolist()
    return rows_here


class PerfLines:
    """The lines of the kernel's ``arm-cs-trace-disasm.py -d objdump`` (tools/perf/scripts/python, 6.1-7.2)."""

    def __init__(self, known: KnownRanges) -> None:
        self._known = known
        self._programs = known.kernels.programs
        self._lister = Lister(known)
        self._blocks, self._tails = PerNumber(self._make_blocks), PerNumber(self._make_tails)
        self._heads: dict[tuple[int, int], bytes] = {}
        self._dso = ""
        self._seen: set[int] = set()

    def render(self, batch: Batch, numbers: I64) -> Iterator[bytes]:
        """Yield the text of a batch, in pieces."""
        ranges, have = batch.ranges, len(self._known.table)
        if not len(ranges):
            return
        blocks, middles, tails = self._blocks.up_to(have), self._middles(batch), self._tails.up_to(have)
        gaps, dso = gap_rows(ranges, self._seen), ranges["dso"].astype(np.int64)
        last = batch.dsos.index(self._dso) if self._dso in batch.dsos else -1
        changes = np.flatnonzero(np.diff(dso, prepend=last) != 0)  # only these rows name their program
        for first in range(0, len(ranges), _AT_ONCE):
            chunk = numbers[first : first + _AT_ONCE]
            parts: list[bytes] = [b""] * (3 * len(chunk))
            parts[0::3], parts[2::3] = pick(blocks, chunk), pick(tails, chunk)
            parts[1::3] = middles[first : first + _AT_ONCE]
            for row in _within(gaps, first):
                parts[3 * (row - first)] = _TRACE_ON % ranges["cpu"][row] + parts[3 * (row - first)]
            for row in _within(changes, first):
                self._dso = batch.dsos[int(ranges["dso"][row])]
                tail = parts[3 * (row - first) + 2]
                parts[3 * (row - first) + 2] = tail[:-1] + self._dso.encode() + b"\n"
            yield b"".join(parts)

    def _middles(self, batch: Batch) -> list[bytes]:
        """Write task, CPU and time of each row."""
        task, cpu = batch.ranges["task"].astype(np.int64), batch.ranges["cpu"].astype(np.int64)
        keys, rows = distinct(task << 32 | cpu & 0xFFFFFFFF)
        heads = [self._task_text(batch, key >> 32, int(np.int32(np.uint32(key & 0xFFFFFFFF)))) for key in keys.tolist()]
        return time_texts(batch.ranges["time"], heads, rows)

    def _task_text(self, batch: Batch, row: int, cpu: int) -> bytes:
        key = row, cpu
        if key not in self._heads:
            comm, pid, tid = batch.tasks[row]
            # The kernel's script prints -1, which is unknown to perf, without a sign.
            ids = (pid & 0xFFFFFFFF, tid & 0xFFFFFFFF, cpu & 0xFFFFFFFF) if row else (pid, tid, cpu & 0xFFFFFFFF)
            self._heads[key] = f"{comm:>16} {ids[0]:5}/{ids[1]:<5} [{ids[2]:04}] ".encode()
        return self._heads[key]

    def _make_blocks(self, numbers: I64) -> list[bytes]:
        blocks = [b""] * len(numbers)
        for code in self._lister.programs(numbers):
            texts = objdump_lines(code.program, code.vaddrs, code.insns, code.counts)
            for row, text in zip(code.rows.tolist(), texts, strict=True):
                blocks[row] = text.encode()
        return blocks

    def _make_tails(self, numbers: I64) -> list[bytes]:
        """Return the symbol of each last instruction."""
        table = self._known.table[numbers]
        lasts = table["end"] - np.uint64(4)
        where = [f"{last:x}".rjust(16) for last in lasts.tolist()]
        for row in np.unique(table["program"][table["piece"] >= 0]).tolist():
            in_text = np.flatnonzero((table["program"] == row) & (table["piece"] >= 0))
            for k, (name, offset) in zip(in_text.tolist(), self._programs[row].places(lasts[in_text]), strict=True):
                where[k] = f"{name}+{offset:#x}" if name else where[k]
        return [f"{place:<40} \n".encode() for place in where]


class PlainLines:
    """The plain format: a line for each range with its time, CPU, level and symbol, and one for each instruction."""

    def __init__(self, known: KnownRanges, block: Callable[[Listed], bytes] | None = None) -> None:
        self._known, self._lister = known, Lister(known)
        self._block = block or self._plain_block
        self._blocks = PerNumber(self._make_blocks)
        self._seen: set[int] = set()

    def render(self, batch: Batch, numbers: I64) -> Iterator[bytes]:
        """Yield the text of a batch, in pieces."""
        ranges = batch.ranges
        blocks = pick(self._blocks.up_to(len(self._known.table)), numbers)
        gaps = set(gap_rows(ranges, self._seen).tolist())
        times = time_texts(ranges["time"], [b""], np.zeros(len(ranges), np.int64), b"")
        parts = []
        for row, (time, head) in enumerate(zip(times, self._heads(ranges), strict=True)):
            parts += [b"gap\n" if row in gaps else b"", time.strip(), head, blocks[row]]
        yield b"".join(parts)

    @staticmethod
    def _heads(ranges: TraceRanges) -> list[bytes]:
        columns = zip(ranges["cpu"].tolist(), ranges["level"].tolist(), ranges["vmid"].tolist(), strict=True)
        return [
            b" cpu %d" % cpu
            + (b" EL%d" % level if level != NO_LEVEL else b"")
            + (b" vmid %d " % vmid if vmid != NO_VMID else b" ")
            for cpu, level, vmid in columns
        ]

    def _make_blocks(self, numbers: I64) -> list[bytes]:
        return [self._block(listed) for listed in self._lister.ranges(numbers)]

    @staticmethod
    def _plain_block(listed: Listed) -> bytes:
        lines = [f"    {insn.vaddr:x}: {insn.word:08x}  {insn.text}\n" for insn in listed.insns]
        return f"{listed.head}\n{''.join(lines)}".encode()


class JsonLines:
    """The JSON format: an object for each range, one a line."""

    def __init__(self, known: KnownRanges) -> None:
        self._known, self._lister = known, Lister(known)
        self._bodies = PerNumber(lambda new: [self._body(listed) for listed in self._lister.ranges(new)])

    def render(self, batch: Batch, numbers: I64) -> Iterator[bytes]:
        """Yield the text of a batch, in pieces."""
        ranges: npt.NDArray[Any] = batch.ranges
        bodies = pick(self._bodies.up_to(len(self._known.table)), numbers)
        columns = (ranges[name].tolist() for name in ("time", "cpu", "level", "vmid", "task", "flags"))
        tasks = [_task_json(task) for task in batch.tasks]
        parts = []
        for body, time, cpu, level, vmid, task, flags in zip(bodies, *columns, strict=True):
            fields = [f'{{"time": {time}, "cpu": {cpu if cpu >= 0 else "null"}']
            fields += [f', "level": {level}'] if level != NO_LEVEL else []
            fields += [f', "vmid": {vmid}'] if vmid != NO_VMID else []
            fields += [tasks[task]] if task else []
            fields += [', "gap": true'] if flags & GAP else []
            parts.append("".join(fields).encode() + body)
        yield b"".join(parts)

    @staticmethod
    def _body(listed: Listed) -> bytes:
        import json

        data: dict[str, Any] = {"start": hex(listed.start), "end": hex(listed.end)}
        if listed.program is not None:
            data |= {"image": listed.program.name, "symbol": listed.name or None, "offset": listed.offset}
            data["instructions"] = [
                {"vaddr": hex(i.vaddr), "word": f"{i.word:08x}", "text": i.text} for i in listed.insns
            ]
        return b", " + json.dumps(data)[1:].encode() + b"\n"


def _task_json(task: TracedTask) -> str:
    import json

    comm = f', "comm": {json.dumps(task.comm)}' if task.comm else ""
    return f', "pid": {task.pid}, "tid": {task.tid}{comm}'
