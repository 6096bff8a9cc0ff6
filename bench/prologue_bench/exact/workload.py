"""Guest instructions of a fixed workload, and the prologues executed in it, function by function: ``exact`` evidence.

One boot runs programs one after the other and counts each (``measure.c`` says when, ``plugin/workload.c``
counts), besides what ``exact`` counts of the boot itself. Programs begin at a fixed moment of guest time, and user
space lies where it always does: two boots of one Image then execute the same instructions.

Two variants do not: one that took less time to boot has another clock in its scheduler, so tasks are switched at
other moments. Prologues per thousand instructions hardly depend on that, instructions do.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from prologue.documents import parse_json
from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols
from prologue.insn import a64
from prologue.kernel.kernel import Kernel
from prologue_bench.errors import BenchError, GuestLostError
from prologue_bench.exact.boot import Counts, read_counts
from prologue_bench.exact.build import build_guest
from prologue_bench.exact.emulator import ONE_CPU, boot_command, plugin_option, run_plugin
from prologue_bench.exact.entered import Entered
from prologue_bench.exact.places import Places, boot_numbers, find_places
from prologue_bench.guest.initramfs import fetch_programs, pack
from prologue_bench.host.events import WITH_TRACE, console_end
from prologue_bench.results.model import Readback

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from prologue_bench.guest.vm import Machine

Argv = tuple[str, ...]

NO_RANDOM_MAPS: Final = "norandmaps"  # on the kernel's command line: user space lies where it always does
_MEASURE_BASE: Final = 0x5A5A0000  # where measure.c lies, and no other program
_ARGUMENTS: Final = 1 << 16  # bytes of /workloads, and ...
_WORDS: Final = 1 << 10  # ... arguments of one program that it has room for
_BUILD_ID: Final = re.compile(rb"\x04\0\0\0(.)\0\0\0\x03\0\0\0GNU\0", re.DOTALL)  # the head of an ELF note


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadCounts:
    """Counts of one program from before its fork until it was waited for.

    ``kernel`` and ``user`` are guest instructions in the upper and lower half of the address space; ``prologues`` are
    first slots executed, in the whole kernel; ``entered`` are the functions that they begin.
    """

    kernel: int
    user: int
    prologues: int
    entered: Entered

    @property
    def instructions(self) -> int:
        """Sum of all."""
        return self.kernel + self.user


@dataclass(frozen=True, slots=True)
class Run:
    """Counts of one boot: up to init, then each workload. ``readback`` are the first slots that workloads executed."""

    boot: Counts
    workloads: tuple[WorkloadCounts, ...]
    readback: Readback


class Bench:
    """A kernel, the programs that are run on it, and the machine: what all boots have in common.

    Args:
        vmlinux: the link; Images of any of its variants can be run.
        machine: CPU and memory; it gets one CPU whatever it says.
        kaslr: boot with KASLR; workloads cannot be counted then.

    """

    def __init__(self, vmlinux: Path, machine: Machine = ONE_CPU, *, kaslr: bool = False) -> None:
        self.kernel = Kernel(vmlinux)
        self.machine, self.kaslr = machine, kaslr

    @cached_property
    def places(self) -> Places:
        """Addresses of the kernel. Raises BenchError: not one that can be counted."""
        return find_places(self.kernel)

    @cached_property
    def init(self) -> Path:
        """Init that measures."""
        return build_guest("measure.c", _MEASURE_BASE)

    @cached_property
    def programs(self) -> tuple[dict[str, bytes], tuple[str, ...]]:
        """Programs by path inside of the guest, and the packages that they are from."""
        return fetch_programs()

    def run(self, image: Path, workloads: Sequence[Argv], stem: Path, timeout: float) -> Run:
        """Boot an Image once, run the programs, return what was counted.

        Files that begin with ``stem`` are made: ``.log`` is the console.

        Raises:
            BenchError: a program is not there or fails, or its code is not where it is expected.
            GuestLostError: the guest does not get to its end.

        """
        self.require_runnable(workloads)
        table, out, initramfs = (stem.with_name(stem.name + end) for end in (".words", ".spans", ".cpio"))
        out.unlink(missing_ok=True)
        option = plugin_option("workload", self._span_numbers(), table, out)
        command = [*boot_command(image, initramfs, self.machine, NO_RANDOM_MAPS, kaslr=self.kaslr), *option]
        numbers = boot_numbers(self.places, image, self.init)
        try:
            initramfs.write_bytes(self._initramfs(workloads))
            table.write_bytes(self.places.classes.tobytes())
            seen = run_plugin(command, numbers, self.places.classes, stem=stem, timeout=timeout)
        finally:
            table.unlink(missing_ok=True)
            initramfs.unlink(missing_ok=True)
        lines = stem.with_name(stem.name + ".log").read_text(encoding="utf-8").splitlines()
        spans = [parse_json(line) for line in out.read_text().splitlines()] if out.exists() else []
        _require_all(spans, workloads, lines, stem)
        counts = read_counts(self.kernel, self.places, image, seen)
        measured = tuple(map(self._counts, spans))
        return Run(counts, measured, _read_back(spans, lines))

    def require_runnable(self, workloads: Sequence[Argv]) -> None:
        """Check that the guest has these programs, and room for their arguments.

        Raises:
            BenchError: it has not.

        """
        if self.kaslr and workloads:
            raise BenchError("--kaslr: counts of workloads need the link's own addresses: count the boot alone")
        programs = sorted(path.removeprefix("bin/") for path in self.programs[0] if path.startswith("bin/"))
        for argv in workloads:
            if not argv or argv[0] not in programs:
                raise BenchError(
                    f"workload {shlex.join(argv)!r}: the guest has no such program, only {', '.join(programs)}"
                )
            if "" in argv or "\0" in "".join(argv) or len(argv) >= _WORDS:
                raise BenchError(f"workload {shlex.join(argv)!r}: an empty argument, or more than {_WORDS - 1}")
        size = len(_arguments(workloads))
        if size > _ARGUMENTS:
            raise BenchError(f"workloads of {size} bytes: the guest has room for {_ARGUMENTS}")

    def _initramfs(self, workloads: Sequence[Argv]) -> bytes:
        content = {"init": self.init.read_bytes(), "workloads": _arguments(workloads)}
        return pack(content | self.programs[0], ("bin", "lib", "proc", "sys", "dev", "tmp"))

    def _span_numbers(self) -> dict[str, int]:
        symbols = Symbols(ElfImage(self.init))
        marks = {name: symbols.find(f"measure_{name}") for name in ("begin", "end")}
        return {name: symbol.vaddr for name, symbol in marks.items() if symbol} | {"text": self.places.text}

    def _counts(self, span: dict[str, Any]) -> WorkloadCounts:
        entries = sorted(((count, index) for index, count, _ in span["entries"]), key=lambda row: (-row[0], row[1]))
        entered = tuple((self._function(self.places.text + 4 * index), count) for count, index in entries)
        prologues = sum(count for count, _ in entries)
        return WorkloadCounts(kernel=span["kernel"], user=span["user"], prologues=prologues, entered=entered)

    def _function(self, vaddr: int) -> str:
        return self.kernel.symbols.locate(vaddr).symbol or f"{vaddr:#x}"


def _arguments(workloads: Sequence[Argv]) -> bytes:
    """Return the arguments that ``measure.c`` reads."""
    words = ((f"/bin/{argv[0]}", *argv[1:]) for argv in workloads)
    return b"".join(b"".join(word.encode() + b"\0" for word in argv) + b"\0" for argv in words)


def _require_all(spans: list[dict[str, Any]], workloads: Sequence[Argv], lines: list[str], stem: Path) -> None:
    """Check that every workload ended well."""
    if len(spans) == len(workloads):
        return
    failed = shlex.join(workloads[len(spans)])
    where = console_end(lines, stem.with_name(f"{stem.name}.log"), WITH_TRACE)
    for line in lines:
        complaint = re.search(r"measure: (.*)", line)
        if complaint is not None:
            status = re.search(r"wait status ([0-9a-f]{4})$", complaint[1])
            why = complaint[1] if status is None else _describe(int(status[1], 16))
            raise BenchError(f"workload {failed!r}: {why}; {where}")
    raise GuestLostError(f"workload {failed!r} never ended; {where}")


def _describe(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"exit status {code}" if code >= 0 else f"killed by signal {-code}"


def _read_back(spans: list[dict[str, Any]], lines: list[str]) -> Readback:
    """Read the guest's memory where workloads executed first slots, and its own word on its build-id."""
    rows = np.array([row for span in spans for row in span["entries"]], np.int64).reshape(-1, 3)
    words = dict(zip(rows[:, 0].tolist(), rows[:, 2].tolist(), strict=True)).values()
    notes_line = re.search(r"^notes: ((?:[0-9a-f]{2})+)$", "\n".join(lines), re.MULTILINE)
    notes = bytes.fromhex(notes_line[1]) if notes_line else b""
    note = _BUILD_ID.search(notes)
    build_id = notes[note.end() : note.end() + note[1][0]].hex() if note else ""
    mov, nop = (sum(word == expected for word in words) for expected in (a64.MOV_X9_X30, a64.NOP))
    return Readback(build_id, len(words), mov, nop)
