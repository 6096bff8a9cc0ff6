"""How fast traces are read, beside the kernel's own script, in one run: ratios, branches a second, and memory.

    .venv/bin/python -m tests.speed.traces --script arm-cs-trace-disasm.py [--ranges N] [--branches N] [VMLINUX]

The script is tools/perf/scripts/python/arm-cs-trace-disasm.py of a kernel's source. It runs outside of perf, with a
stand-in for perf's module, on some distinct ranges, and its time for each is what is compared: it starts one objdump
for each new range, whatever their number. The trace is made: straight code of the vmlinux that ends in indirect
branches, in random order, so that its flow is possible. Without VMLINUX it is Debian's 6.12 cloud kernel. With
``--perf-data`` the same flow is an ETMv4 trace in perf.data, decoded by libopencsd, and by ``perf script`` beside it;
a fourth of the branches, as both files are written here. ``--recorded PERF.DATA`` compares the same two on a recording
with kcore, and nothing else: most of its ranges run again and again, as those of kernels do. CPU time (of all
processes of a command) is given, too: wall time says nothing on a machine that does other things.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
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
from prologue_bench.host import programs
from tests.speed.measured import Used, judge, run
from tests.support.debian.kernels import fetch_kernel

_STAND_IN = """
def perf_set_itrace_options(*a): pass
def perf_sample_insn(*a): return b""
def perf_sample_srccode(*a): return None, 0, None
"""
_DRIVER = """
import sys
script, objdump, vmlinux, branches = sys.argv[1:]
sys.argv = [script, "-d", objdump, "-k", vmlinux]
space = {"__name__": "script", "perf_script_context": None}
exec(compile(open(script).read(), script, "exec"), space)
space["trace_begin"]()
for line in open(branches):
    ip, addr = (int(word, 16) for word in line.split())
    sample = dict(cpu=0, ip=ip, addr=addr, phys_addr=0, pid=1, tid=1, period=1, time=1)
    event = dict(sample=sample, comm="hackbench", ev_name="branches:k", dso="[kernel.kallsyms]", dso_bid="")
    space["process_event"](event | dict(dso_map_start=0, dso_map_end=(1 << 64) - 1, symbol="sym", symoff=0))
space["trace_end"]()
"""


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
    parser.add_argument("--script", type=Path)
    parser.add_argument("--ranges", type=int, default=100_000)
    parser.add_argument("--branches", type=int, default=1_000_000)
    parser.add_argument("--sample", type=int, default=60, help="distinct ranges for the script")
    parser.add_argument("--perf-data", action="store_true", help="perf.data instead of perf's text")
    parser.add_argument("--recorded", type=Path, metavar="PERF.DATA", help="a recording of that kernel, with kcore")
    args = parser.parse_args()
    vmlinux = args.vmlinux or fetch_kernel("trixie").vmlinux
    if args.recorded:
        return of_recording(vmlinux, args.recorded)
    if args.script is None:
        parser.error("--script is needed, or --recorded")
    code = straight_code(vmlinux, args.ranges)
    with tempfile.TemporaryDirectory(prefix="trace-speed-") as name:
        directory = Path(name)
        alike, theirs = peer(args.script, vmlinux, code, args.sample, directory)
        if args.perf_data:
            return of_perf_data(vmlinux, code, args.branches // 4, theirs, directory)
        used = {count: ours("disasm", vmlinux, code, count, directory)
                for count in (args.ranges, args.ranges + args.branches, args.ranges + 4 * args.branches)}  # fmt: skip
        checked = {count: ours("check", vmlinux, code, count, directory)
                   for count in (args.ranges, args.ranges + args.branches)}  # fmt: skip
    first, second, third = used.values()
    script = theirs * len(code.first)
    known = 3 * args.branches / (third.cpu - second.cpu)  # both have all ranges to disassemble
    once, again = checked.values()
    judged = args.branches / (again.cpu - once.cpu)
    distinct = f"{len(code.first):,} distinct ranges (scaled from {args.sample})"
    bounds = [
        (f"script / disasm, {distinct}", script / first.wall, ">=", 50.0),
        ("disasm: branches for each second of CPU, ranges known", known, ">=", 1e6),
        ("check: branches for each second of CPU, ranges known", judged, ">=", 1e6),
        ("disasm: peak memory, 4 times the branches / once", third.peak / second.peak, "<=", 1.1),
        ("instruction lines that differ from the script's in address or word", float(alike), "<=", 0.0),
    ]
    print(f"{vmlinux}: script {1000 * theirs:.0f} ms for each new range; disasm of {len(code.first):,} ranges "
          f"{first.wall:.1f} s ({first.cpu:.1f} s of CPU, {first.peak:.0f} MB)")  # fmt: skip
    return judge(bounds)


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


def of_perf_data(vmlinux: Path, code: Code, branches: int, script: float, directory: Path) -> int:
    """Measure perf.data; ``script`` are the seconds of the kernel's script for each new range."""
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
            ("the kernel's script / disasm, CPU", script * len(code.first) / disasm[0].cpu, ">=", 100.0),
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


def peer(script: Path, vmlinux: Path, code: Code, count: int, directory: Path) -> tuple[int, float]:
    """Instruction lines that differ between the script and us; the script's seconds for each new range."""
    (directory / "perf_trace_context.py").write_text(_STAND_IN)
    (directory / "driver.py").write_text(_DRIVER)
    sample = Code(code.first[:count], code.last[:count])
    steps = list(sample.branches(count))
    (directory / "branches").write_text("".join(f"{ip:x} {addr:x}\n" for ip, addr in steps))
    objdump = programs.find("aarch64-linux-gnu-objdump")
    command = [sys.executable, "driver.py", str(script.resolve()), objdump, str(vmlinux.resolve()), "branches"]
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=True)
    seconds = (time.perf_counter() - begin) / (count - 1)
    text = "".join(_perf_line(k, ip, addr) for k, (ip, addr) in enumerate(steps))
    mine = subprocess.run(
        [sys.executable, "-m", "prologue", "trace", "disasm", "-", "--vmlinux", str(vmlinux)],
        input=text, capture_output=True, text=True, check=True,
    )  # fmt: skip
    theirs, ours_ = (_words(out.stdout) for out in (done, mine))
    print(f"{sum(a == b for a, b in zip(theirs, ours_, strict=False)):,} of {len(theirs):,} lines of the script: equal "
          "in address and word")  # fmt: skip
    return sum(a != b for a, b in zip(theirs, ours_, strict=False)) + abs(len(theirs) - len(ours_)), seconds


def _words(text: str) -> list[tuple[str, ...]]:
    """Address and word of instruction lines, and symbols of the others."""
    lines = (line.split() for line in text.splitlines() if line.startswith("\t"))
    return [tuple(line[:2]) for line in lines]


def _perf_line(number: int, ip: int, addr: int) -> str:
    seconds, rest = divmod(1_000_000_000 + 100 * number, 10**9)
    where = f"{ip:16x} sym+0x10 ([kernel.kallsyms]) => {addr:16x} other+0x0 ([kernel.kallsyms])"
    return f"       hackbench  1234/1234  [000] {seconds:5}.{rest // 1000:06}:          1   branches:k:  {where}\n"


def ours(action: str, vmlinux: Path, code: Code, count: int, directory: Path) -> Used:
    """Run one command on so many branches, from a file; the output goes nowhere."""
    path = directory / f"trace-{count}"
    if not path.exists():
        with path.open("w") as stream:
            stream.writelines(_perf_line(k, ip, addr) for k, (ip, addr) in enumerate(code.branches(count)))
    return run([sys.executable, "-m", "prologue", "trace", action, str(path), "--vmlinux", str(vmlinux)])


if __name__ == "__main__":
    sys.exit(main())
