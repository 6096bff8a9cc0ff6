"""How fast traces are read, beside perf, in one run: ratios, and ranges a second.

    .venv/bin/python -m tests.speed.traces [--ranges N] [--branches N] [VMLINUX]

The trace is made, as ETMv4 in perf.data: straight code of the vmlinux that ends in indirect branches, in random order,
so that its flow is possible. libopencsd decodes it, and ``perf script`` beside it. Without VMLINUX it is Debian's 6.12
cloud kernel. ``--recorded PERF.DATA`` compares the same two on a recording with kcore, and nothing else: most of its
ranges run again and again, as those of kernels do. CPU time (of all processes of a command) is given, too: wall time
says nothing on a machine that does other things.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from prologue.arrays import U64
from prologue.insn.rows import flows
from prologue.live.memory.state import KernelTask
from prologue.live.system.programs import linked_program
from prologue.trace.etm.perf_data import KernelMap, TracedKernel, write_perf_trace
from prologue.trace.etm.processes import TracedProcesses
from prologue.trace.etm.stream import ProgramText
from prologue.trace.etm.waypoints import find_waypoints
from prologue.trace.path.branching import CALL, INDIRECT, RET, never_goes_on
from prologue.trace.ranges import GAP, Tally
from prologue.trace.readers.decoding import open_perf_trace
from prologue.trace.readers.recording import RECORD, RecordingHeader
from tests.speed.measured import judge, run
from tests.support.debian.kernels import fetch_kernel


class Code(NamedTuple):
    """Ranges: first and last instruction."""

    first: U64
    last: U64

    def branches(self, count: int) -> Iterator[tuple[int, int]]:
        """So many branches (from, to) of a possible flow: all ranges in some order, again and again, as in a loop."""
        order = np.random.default_rng(2).permutation(len(self.first))
        before, done = int(order[-1]), 0
        while done < count:
            for row in order[: count - done].tolist():
                yield int(self.last[before]), int(self.first[row])
                before = row
            done += len(order)


def main() -> int:
    """Measure, print, and say which bounds hold; 1 if one does not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vmlinux", nargs="?", type=Path)
    parser.add_argument("--ranges", type=int, default=100_000)
    parser.add_argument("--branches", type=int, default=250_000)
    parser.add_argument("--recorded", type=Path, metavar="PERF.DATA", help="a recording of that kernel, with kcore")
    args = parser.parse_args()
    vmlinux = args.vmlinux or fetch_kernel("trixie").vmlinux
    if args.recorded:
        return of_recording(vmlinux, args.recorded)
    code = straight_code(vmlinux, args.ranges)
    with tempfile.TemporaryDirectory(prefix="trace-speed-") as name:
        return of_perf_data(vmlinux, code, args.branches, Path(name))


def of_recording(vmlinux: Path, path: Path) -> int:
    """Measure ``disasm`` and ``perf script`` on a recording: the fastest of three runs of each."""
    commands = {
        "disasm": [sys.executable, "-m", "prologue", "trace", "disasm", str(path), "--vmlinux", str(vmlinux)],
        "perf script": ["perf", "script", "-i", str(path), "--itrace=b"],
    }
    used = {name: min(run(command) for _ in range(3)) for name, command in commands.items()}
    for name, each in used.items():
        print(f"{name}: {each.wall:.1f} s, {each.cpu:.1f} s of CPU, {each.peak:.0f} MB")
    ours_, perf = used["disasm"], used["perf script"]
    return judge(
        [
            ("perf script / disasm, seconds", perf.wall / ours_.wall, ">=", 1.0),
            ("perf script / disasm, CPU", perf.cpu / ours_.cpu, ">=", 1.0),
        ]
    )


def of_perf_data(vmlinux: Path, code: Code, branches: int, directory: Path) -> int:
    """Measure perf.data."""
    counts = (len(code.first), len(code.first) + branches, len(code.first) + 4 * branches)
    files = [directory / f"data-{count}" for count in counts]
    ranges = [write_trace(vmlinux, code, count, path) for count, path in zip(counts, files, strict=True)]
    prologue = [sys.executable, "-m", "prologue", "trace"]
    disasm = [run([*prologue, "disasm", str(path), "--vmlinux", str(vmlinux)]) for path in files]
    check = [run([*prologue, "check", str(path), "--vmlinux", str(vmlinux)]) for path in files]
    fields = ["--itrace=b", "-F", "comm,pid,tid,cpu,time,event,ip,sym,symoff,addr,dso"]
    perf = [run(["perf", "script", "-i", str(path), *fields, "-k", str(vmlinux)]) for path in files[:2]]
    decoded = decoded_per_second(vmlinux, files[2])
    for name, commands in (("disasm", disasm), ("check", check), ("perf script", perf)):
        for count, branches_, used in zip(ranges, counts, commands, strict=False):
            print(f"{name}, {count:,} ranges ({branches_:,} branches): {used.cpu:.1f} s of CPU, {used.wall:.1f} s")
    return judge(
        [
            ("ranges decoded, for each second of CPU", decoded, ">=", 1e6),
            ("check: ranges for each second of CPU, ranges known",
             (ranges[2] - ranges[1]) / (check[2].cpu - check[1].cpu), ">=", 1e6),
            (f"disasm: seconds of CPU for {ranges[0]:,} ranges, all of them new", disasm[0].cpu, "<=", 10.0),
            ("perf script / disasm, CPU, all ranges new", perf[0].cpu / disasm[0].cpu, ">=", 1.0),
            ("perf script / disasm, CPU, ranges known",
             (perf[1].cpu - perf[0].cpu) / (disasm[1].cpu - disasm[0].cpu), ">=", 1.0),
        ]
    )  # fmt: skip


def decoded_per_second(vmlinux: Path, path: Path) -> float:
    """Decode a trace into ranges, and do nothing with these; CPU time of both processes counts."""
    trace = open_perf_trace(path, Tally())
    trace.follow([(piece.addr, piece.words) for piece in linked_program(vmlinux, 0).pieces])
    before = _cpu()
    count = sum(len(batch.ranges) for batch in trace.batches())
    return count / (_cpu() - before)


def _cpu() -> float:
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def write_trace(vmlinux: Path, code: Code, count: int, path: Path) -> int:
    """Write so many branches as perf record -e cs_etm// would have left them; return the ranges that a decoder has.

    It ends a range at each conditional branch, too.
    """
    steps = np.array(list(code.branches(count)), np.uint64)
    starts, lasts = steps[:-1, 1], steps[1:, 0]
    records = np.zeros(len(starts), RECORD)
    records["start"], records["count"] = starts, ((lasts - starts) >> np.uint64(2)) + np.uint64(1)
    records["level"], records["vmid"], records["task"] = 1, -1, 1234
    records["time"] = 10**9 + 100 * np.arange(len(records)) // 1600 * 1600  # a timestamp for every 16 ranges
    records["flags"][0] = GAP
    program = linked_program(vmlinux, 0)
    text = ProgramText([(piece.addr, piece.words) for piece in program.pieces])
    start, end = program.find("_text")[0], program.pieces[-1].addr
    processes = TracedProcesses(tasks=(KernelTask(1234, 1234, "a"),))
    kernel = TracedKernel(text=text, place=KernelMap("_text", start, end - start), processes=processes)
    write_perf_trace(path, RecordingHeader(slide=0, clocked=True), records, kernel, levels=(1,))
    piece = max(program.pieces, key=lambda one: len(one.words))
    ends = np.append(0, np.cumsum(find_waypoints(piece.words) != 0))
    first, last = (((places - np.uint64(piece.addr)) >> np.uint64(2)).astype(np.int64) for places in (starts, lasts))
    return int((ends[last + 1] - ends[first]).sum())


def straight_code(vmlinux: Path, count: int) -> Code:
    """Distinct ranges of up to 40 instructions, whose last one may go anywhere."""
    program = linked_program(vmlinux, 0)
    piece = max(program.pieces, key=lambda one: len(one.words))
    places = np.uint64(piece.addr) + np.uint64(4) * np.arange(len(piece.words), dtype=np.uint64)
    ends = np.flatnonzero(never_goes_on(piece.words, places))
    free = np.isin(flows(piece.words[ends]), (RET, INDIRECT, CALL))
    starts = np.random.default_rng(1).permutation(int(ends[-1]))
    row = np.searchsorted(ends, starts)
    good = free[row] & (ends[row] - starts < 40) & (ends[row] > starts)
    starts, row = starts[good][:count], row[good][:count]
    return Code(places[starts], places[ends[row]])


if __name__ == "__main__":
    sys.exit(main())
