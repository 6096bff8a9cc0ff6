"""A kernel of a few instructions, and traces of it."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from prologue.trace.ranges import Batch
from prologue.trace.readers.recording import RECORD, RecordingHeader
from tests.support.assembler import assemble
from tests.support.cs_etm import CsTrace, write
from tests.support.tool import Printed, Tool
from tests.trace.elements import ElementTrace

BASE = 0xFFFF800080010000


class MadeKernel:
    """Functions one after the other, each aligned to 16 bytes; labels of other functions are their addresses."""

    def __init__(self, functions: dict[str, list[str]], base: int = BASE) -> None:
        self.places: dict[str, int] = {}
        at = base
        for name, lines in functions.items():
            at = -(-at // 0x800) * 0x800 if name == "vectors" else at
            self.places[name] = at
            at += -(-4 * len(lines) // 16) * 16
        self.base, self.words = base, [0xD503201F] * ((at - base) // 4)
        self.sizes = {name: 4 * len(lines) for name, lines in functions.items()}
        for name, lines in functions.items():
            for k, line in enumerate(lines):
                vaddr = self.places[name] + 4 * k
                self.words[(vaddr - base) // 4] = self._word(line, vaddr, name)

    def _word(self, line: str, vaddr: int, function: str) -> int:
        mnemonic, _, operand = line.rpartition(" ")
        target, plus, offset = operand.partition("+")
        place = {**self.places, ".": vaddr, "@": self.places[function]}.get(target)
        if not mnemonic or place is None:
            return assemble(line)
        return assemble(f"{mnemonic} #{place + (int(offset, 0) if plus else 0) - vaddr}")

    def at(self, place: str) -> int:
        name, _, offset = place.partition("+")
        return self.places[name] + (int(offset, 0) if offset else 0)

    def write(
        self, path: Path, changed: dict[str, int] | None = None, build_id: bytes = b"", section: bytes = b".text"
    ) -> Path:
        """An unstripped vmlinux; ``changed`` words stand in place of the functions' own."""
        words = list(self.words)
        for place, word in (changed or {}).items():
            words[(self.at(place) - self.base) // 4] = word
        text = struct.pack(f"<{len(words)}I", *words)
        strings, symbols = b"\0", bytes(24)
        for name, vaddr in self.places.items():
            symbols += struct.pack("<IBBHQQ", len(strings), 0x12, 0, 1, vaddr, self.sizes[name])
            strings += name.encode() + b"\0"
        names = b"\0" + section + b"\0.symtab\0.strtab\0.shstrtab\0.note\0"
        note = struct.pack("<III4s", 4, len(build_id), 3, b"GNU") + build_id
        parts = [(section, 1, 6, self.base, text, 0, 0), (b".symtab", 2, 0, 0, symbols, 3, 24),
                 (b".strtab", 3, 0, 0, strings, 0, 0), (b".shstrtab", 3, 0, 0, names, 0, 0),
                 *([(b".note", 7, 0, 0, note, 0, 0)] if build_id else [])]  # fmt: skip
        body, headers, at = b"", [bytes(64)], 64
        for label, kind, flags, vaddr, data, link, entry in parts:
            offset = names.index(label + b"\0")
            headers.append(struct.pack("<IIQQQQIIQQ", offset, kind, flags, vaddr, at, len(data), link, 1, 8, entry))
            padded = data + bytes(-len(data) % 8)
            body, at = body + padded, at + len(padded)
        ident = b"\x7fELF\x02\x01\x01" + bytes(9)
        head = struct.pack("<HHIQQQIHHHHHH", 3, 183, 1, 0, 0, 64 + len(body), 0, 64, 56, 0, 64, len(headers), 4)
        path.write_bytes(ident + head + body + b"".join(headers))
        return path


KERNEL = MadeKernel(
    {
        "vectors": ["nop", "eret", *["nop"] * 30] * 16,
        "vfs_read": ["nop", "nop", "stp x29, x30, [sp, #-16]!", "cbz x0, .+16", "bl read_zero", "nop",
                     "b .+8", "mov x0, #1", "ldp x29, x30, [sp], #16", "ret"],
        "read_zero": ["nop", "nop", "nop", "cmp x1, #16", "b.eq .+8", "add x0, x0, #1", "ret"],
    }
)  # fmt: skip


class Run:
    """``prologue trace`` on a trace and the made kernel, which are at the same two places for each command."""

    def __init__(self, directory: Path, tool: Tool, kernel: MadeKernel = KERNEL) -> None:
        self._tool, self._kernel = tool, kernel
        self.vmlinux, self.trace = directory / "vmlinux", directory / "trace"

    def __call__(
        self, command: str, trace: str | bytes | CsTrace | ElementTrace, *options: object,
        changed: dict[str, int] | None = None, status: int | None = 0,
    ) -> Printed:  # fmt: skip
        """One command on such a file; ``changed`` words stand in the vmlinux."""
        self._kernel.write(self.vmlinux, changed)
        if isinstance(trace, CsTrace):
            write(self.trace, trace)
        elif not isinstance(trace, ElementTrace):
            self.trace.write_bytes(trace.encode() if isinstance(trace, str) else trace)
        with trace.in_place() if isinstance(trace, ElementTrace) else nullcontext():
            return self._tool("trace", command, self.trace, "--vmlinux", self.vmlinux, *options, status=status)

    def folded(self, trace: str | bytes, *options: object) -> Counter[str]:
        """Instructions by stack, as an export in that form has them."""
        out = self.trace.with_name("folded")
        self("export", trace, "--format", "folded", "-o", out, *options)
        lines = [line.rpartition(" ") for line in out.read_text().splitlines()]
        return Counter({stack: int(count) for stack, _, count in lines})


def perf_line(
    ip: int, addr: int, *, cpu: int = 0, time: int = 0, comm: str = "cat", pid: int = 77, event: str = "branches:k",
    dso: str = "[kernel.kallsyms]",
) -> str:  # fmt: skip
    """As perf script prints one with -F comm,pid,tid,cpu,time,event,ip,sym,symoff,addr,dso."""
    where = [
        f"{vaddr:16x} {'sym+0x4' if vaddr else '[unknown]'} ({dso if vaddr else '[unknown]'})" for vaddr in (ip, addr)
    ]
    head = f"{comm:>16} {pid:5}/{pid:<5} [{cpu:03}] {time // 10**9:5}.{time % 10**9 // 1000:06}: {event:>14}:  "
    return f"{head}{where[0]} => {where[1]}\n"


def perf_text(steps: Iterable[tuple[str | int, str | int]], kernel: MadeKernel = KERNEL, **how: Any) -> str:
    """Branches, by places or addresses."""
    numbers = [[place if isinstance(place, int) else kernel.at(place) for place in step] for step in steps]
    return "".join(perf_line(ip, addr, time=10**9 + 1000 * k, **how) for k, (ip, addr) in enumerate(numbers))


def recording(rows: Iterable[dict[str, int]], header: RecordingHeader | None = None) -> bytes:
    """The bytes of a recording; what a row does not say is not known."""
    import numpy as np

    listed = list(rows)
    records = np.zeros(len(listed), RECORD)
    records["level"], records["vmid"] = 255, -1
    for k, row in enumerate(listed):
        for name, value in row.items():
            records[name][k] = value
    return (header or RecordingHeader()).pack() + records.tobytes()


def spans(batches: Iterable[Batch]) -> list[tuple[int, int, int, int]]:
    """CPU, start, end and flags of every range."""
    rows = [batch.ranges[["cpu", "start", "end", "flags"]].tolist() for batch in batches]
    return [tuple(row) for part in rows for row in part]
