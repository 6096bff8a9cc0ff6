"""Text for millions of ranges: what is the same for equal ranges is made once, and numbers are written as arrays."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U64
from prologue.trace.form import GAP, NO_LEVEL, NO_VMID, Batch, TraceRanges
from prologue.trace.known import Each, KnownRanges
from prologue.trace.listing import instructions, objdump_lines, plain_place

PERF_HEAD: Final = b"ARM CoreSight Trace Data Assembler Dump\n"
PERF_TAIL: Final = b"End\n"
_TRACE_ON: Final = b"CPU%d: CS_ETM_TRACE_ON packet is inserted\n"


def pick(things: list[Any], rows: I64) -> tuple[Any, ...]:
    """Several members of a list, by row."""
    if len(rows) == 1:
        return (things[int(rows[0])],)
    return itemgetter(*rows.tolist())(things) if len(rows) else ()


def time_texts(times: U64) -> list[bytes]:
    """Times in ns as ``%9u.%09u  ``."""
    seconds, rest = np.divmod(times, np.uint64(10**9))
    if len(times) and int(seconds.max()) >= 10**9:
        return [b"%9d.%09d  " % pair for pair in zip(seconds.tolist(), rest.tolist(), strict=True)]
    text = np.empty((len(times), 21), np.uint8)
    text[:, 9], text[:, 19:] = ord("."), ord(" ")
    for column in range(8, -1, -1):
        seconds, digit = np.divmod(seconds, np.uint64(10))
        text[:, column] = digit
    for column in range(18, 9, -1):
        rest, digit = np.divmod(rest, np.uint64(10))
        text[:, column] = digit
    blank = np.cumsum(text[:, :8], axis=1) == 0  # zeros before the first digit
    text[:, :9] += np.uint8(ord("0"))
    text[:, 10:19] += np.uint8(ord("0"))
    text[:, :8][blank] = ord(" ")
    packed = text.tobytes()
    return [packed[at : at + 21] for at in range(0, len(packed), 21)]


def gap_rows(ranges: TraceRanges, seen: set[int]) -> I64:
    """Rows with a gap before them, but for each CPU's first range; ``seen`` are CPUs, and grows."""
    rows = np.flatnonzero(ranges["flags"] & np.uint8(GAP))
    kept = []
    for row, cpu in zip(rows.tolist(), ranges["cpu"][rows].tolist(), strict=True):
        if cpu in seen:
            kept.append(row)
        seen.add(cpu)
    return np.array(kept, np.int64)


class PerfLines:
    """The lines of the kernel's ``arm-cs-trace-disasm.py -d objdump`` (tools/perf/scripts/python, 6.1-7.2)."""

    def __init__(self, known: KnownRanges) -> None:
        self._known = known
        self._programs = known.kernels.programs
        self._blocks = Each(self._block)
        self._tails = Each(self._tail)
        self._heads: dict[tuple[int, int], bytes] = {}
        self._dso = ""
        self._seen: set[int] = set()

    def render(self, batch: Batch, numbers: I64) -> bytes:
        """The text of a batch."""
        ranges, count = batch.ranges, len(batch.ranges)
        if not count:
            return b""
        blocks = list(pick(self._blocks.up_to(len(self._known.table)), numbers))
        for row in gap_rows(ranges, self._seen).tolist():
            blocks[row] = _TRACE_ON % ranges["cpu"][row] + blocks[row]
        tails = list(pick(self._tails.up_to(len(self._known.table)), numbers))
        for row in self._changes(batch).tolist():
            self._dso = batch.dsos[int(ranges["dso"][row])]
            tails[row] = tails[row][:-1] + self._dso.encode() + b"\n"
        parts: list[bytes] = [b""] * (4 * count)
        parts[0::4], parts[1::4], parts[2::4], parts[3::4] = (
            blocks,
            self._task_texts(batch),
            time_texts(ranges["time"]),
            tails,
        )
        return b"".join(parts)

    def _changes(self, batch: Batch) -> I64:
        """Rows whose program is another than that of the row before: only they name it."""
        dso = batch.ranges["dso"].astype(np.int64)
        last = batch.dsos.index(self._dso) if self._dso in batch.dsos else -1
        return np.flatnonzero(np.diff(dso, prepend=last) != 0)

    def _task_texts(self, batch: Batch) -> list[bytes]:
        task, cpu = batch.ranges["task"].astype(np.int64), batch.ranges["cpu"].astype(np.int64)
        keys, inverse = np.unique(task << 32 | cpu & 0xFFFFFFFF, return_inverse=True)
        texts = [
            self._task_text(batch, int(key) >> 32, int(np.int32(np.uint32(int(key) & 0xFFFFFFFF)))) for key in keys
        ]
        return list(pick(texts, inverse))

    def _task_text(self, batch: Batch, row: int, cpu: int) -> bytes:
        key = row, cpu
        if key not in self._heads:
            comm, pid, tid = batch.tasks[row]
            # Numbers that are not said are what perf prints for -1.
            said = pid & 0xFFFFFFFF, tid & 0xFFFFFFFF, cpu & 0xFFFFFFFF
            self._heads[key] = f"{comm:>16} {said[0]:5}/{said[1]:<5} [{said[2]:04}] ".encode()
        return self._heads[key]

    def _block(self, number: int) -> bytes:
        start, end, program, piece = self._known.table[number].tolist()
        if piece < 0:
            return b""
        return objdump_lines(self._programs[program], start, end, piece).encode()

    def _tail(self, number: int) -> bytes:
        _, end, program, piece = self._known.table[number].tolist()
        name, offset = self._programs[program].place(end - 4) if piece >= 0 else ("", 0)
        where = f"{name}+{offset:#x}" if name else f"{end - 4:x}".rjust(16)
        return f"{where:<40} \n".encode()


class PlainLines:
    """A line for each range with its time, CPU, level and symbol, and one for each instruction."""

    def __init__(self, known: KnownRanges, body: Callable[[int], bytes] | None = None) -> None:
        self._known = known
        self._programs = known.kernels.programs
        self._blocks = Each(body or self._block)
        self._seen: set[int] = set()

    def render(self, batch: Batch, numbers: I64) -> bytes:
        """The text of a batch."""
        ranges = batch.ranges
        blocks = list(pick(self._blocks.up_to(len(self._known.table)), numbers))
        gaps = set(gap_rows(ranges, self._seen).tolist())
        parts = []
        for row, (time, head) in enumerate(zip(time_texts(ranges["time"]), self._heads(ranges), strict=True)):
            parts += [b"gap\n" if row in gaps else b"", time.strip(), head, blocks[row]]
        return b"".join(parts)

    @staticmethod
    def _heads(ranges: TraceRanges) -> list[bytes]:
        columns = zip(ranges["cpu"].tolist(), ranges["level"].tolist(), ranges["vmid"].tolist(), strict=True)
        return [
            b" cpu %d" % cpu
            + (b" EL%d" % level if level != NO_LEVEL else b"")
            + (b" vmid %d " % vmid if vmid != NO_VMID else b" ")
            for cpu, level, vmid in columns
        ]

    def _block(self, number: int) -> bytes:
        start, end, program, piece = self._known.table[number].tolist()
        if piece < 0:
            return f"{start:#x}..{end - 4:#x}\n".encode()
        own = self._programs[program]
        lines = [f"{plain_place(own, start)}\n"]
        lines += [
            f"    {insn.vaddr:x}: {insn.word:08x}  {insn.text}\n" for insn in instructions(own, start, end, piece)
        ]
        return "".join(lines).encode()


class JsonLines:
    """A JSON object for each range, one a line."""

    def __init__(self, known: KnownRanges) -> None:
        self._known = known
        self._programs = known.kernels.programs
        self._bodies = Each(self._body)

    def render(self, batch: Batch, numbers: I64) -> bytes:
        """The text of a batch."""
        ranges: npt.NDArray[Any] = batch.ranges
        bodies = pick(self._bodies.up_to(len(self._known.table)), numbers)
        columns = (ranges[name].tolist() for name in ("time", "cpu", "level", "vmid", "task", "flags"))
        parts = []
        for body, time, cpu, level, vmid, task, flags in zip(bodies, *columns, strict=True):
            said = [f'{{"time": {time}, "cpu": {cpu if cpu >= 0 else "null"}']
            said += [f', "level": {level}'] if level != NO_LEVEL else []
            said += [f', "vmid": {vmid}'] if vmid != NO_VMID else []
            said += [f', "pid": {batch.tasks[task].pid}'] if task else []
            said += [', "gap": true'] if flags & GAP else []
            parts.append("".join(said).encode() + body)
        return b"".join(parts)

    def _body(self, number: int) -> bytes:
        import json

        start, end, program, piece = self._known.table[number].tolist()
        data: dict[str, Any] = {"start": hex(start), "end": hex(end)}
        if piece >= 0:
            own = self._programs[program]
            name, offset = own.place(start)
            data |= {"image": own.name, "symbol": name or None, "offset": offset}
            insns = instructions(own, start, end, piece)
            data["instructions"] = [{"vaddr": hex(i.vaddr), "word": f"{i.word:08x}", "text": i.text} for i in insns]
        return b", " + json.dumps(data)[1:].encode() + b"\n"
