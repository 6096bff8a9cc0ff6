"""``prologue bench record``: this boot of this machine, or a script that records on another."""

from __future__ import annotations

import argparse
import shlex
import sys
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from prologue.cli.arguments import number_from
from prologue.kernel.kernel import Kernel
from prologue.report.terminal import note, warn
from prologue.words import counted
from prologue_bench.cli.common import RUNS, add_counters, put
from prologue_bench.errors import BenchError
from prologue_bench.exact.build import build_counter
from prologue_bench.host.events import parse_line
from prologue_bench.recorder.gate import advice
from prologue_bench.recorder.local import record_here
from prologue_bench.recorder.output import TOKEN, Recorded
from prologue_bench.recorder.reader import SUFFIXES
from prologue_bench.recorder.record import Record, appending, make_record
from prologue_bench.recorder.sampling import sample_sites
from prologue_bench.recorder.script import script
from prologue_bench.recorder.task import Task
from prologue_bench.results.model import Direction, Workload


def add_options(added: argparse.ArgumentParser) -> None:
    """Add all options."""
    added.add_argument("--label", type=_label, required=True, metavar="LABEL", help="which variant this boot runs")
    added.add_argument(
        "--vmlinux",
        type=Path,
        metavar="VMLINUX",
        help="the running kernel: sampled sites are read back, which proves the variant",
    )
    added.add_argument(
        "--runs", type=number_from(1), default=RUNS, metavar="N",
        help="runs of each workload (default: %(default)s)",
    )  # fmt: skip
    added.add_argument("--governor", metavar="NAME", help="cpufreq governor during the runs; restored afterwards")
    add_counters(added)
    added.add_argument(
        "--workload", action="append", default=[], metavar="SPEC", help="as in bench run; may be repeated"
    )  # fmt: skip
    added.add_argument(
        "--pattern", metavar="RE",
        help="basic regular expression; its \\(group\\) is the number in the command's output",
    )  # fmt: skip
    added.add_argument("--unit", metavar="UNIT", help="unit of that number")
    added.add_argument("--direction", choices=("lower", "higher"), help="which number is better")
    output = added.add_mutually_exclusive_group(required=True)
    output.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="record file; one line is appended"
    )  # fmt: skip
    output.add_argument(
        "--script", action="store_true",
        help="measure nothing; print a POSIX shell script that records the machine it runs on",
    )  # fmt: skip
    added.add_argument(
        "--command", metavar="COMMAND", help="a line for the shell, to measure: its wall time, or see --pattern"
    )  # fmt: skip


def run(args: Namespace) -> int:
    """Record one boot.

    Returns:
        0; 1 if the boot is void: it is in the file, and does not count.

    """
    sites = sample_sites(args.vmlinux) if args.vmlinux else ()
    counter = build_counter() if args.counters else b""
    task = Task(workloads=_workloads(args), runs=args.runs, sites=sites, governor=args.governor, counter=counter)
    if args.script:
        note(f"on the board, as root, once for each boot: LABEL={shlex.quote(args.label)} sh SCRIPT >> boots.log; "
             "then here: prologue bench compare boots.log")  # fmt: skip
        return put(script(task, args.label))
    if not args.output.name.endswith(SUFFIXES):
        raise BenchError(f"-o {args.output}: the suffix marks a record file: use {args.output}.jsonl")
    with appending(args.output) as append:
        _look(task, args.vmlinux)
        record = make_record(record_here(task, _show(task)), task, args.label, str(args.output))
        append(record)
    if record.boot.void is not None or not args.quiet:
        print("\n".join(_summary(record, args.output)))
    return 0 if record.boot.void is None else 1


def _workloads(args: Namespace) -> tuple[Workload, ...]:
    if bool(args.workload) == bool(args.command):
        raise BenchError("give either --workload SPEC or --command COMMAND")
    described = (args.pattern, args.unit, args.direction)
    if args.workload:
        if any(described):
            raise BenchError("--pattern, --unit and --direction describe --command, not a --workload")
        from prologue_bench.recorder.workloads import parse_workloads

        return parse_workloads(args.workload)
    if any(described) and not all(described):
        raise BenchError("--pattern, --unit and --direction go together; without them the wall time is measured")
    direction: Direction = args.direction or "lower"
    return (Workload(args.command, args.command, args.unit or "seconds", direction, pattern=args.pattern),)


def _look(task: Task, vmlinux: Path | None) -> None:
    """Report before the work what is wrong with the machine.

    Raises:
        BenchError: it runs another kernel.

    """
    seen = record_here(replace(task, workloads=(), runs=0))
    _require_same_kernel(seen, vmlinux)
    for item in advice(seen.gate_before):
        if not (item.what == "no read-back" and vmlinux is None):
            warn(f"{item.what}: {item.why}: {item.fix}")


def _require_same_kernel(seen: Recorded, vmlinux: Path | None) -> None:
    if vmlinux is None or "build_id" not in seen.machine:
        return
    expected, running = Kernel(vmlinux).build_id, seen.machine["build_id"]
    if expected and expected != running:
        raise BenchError(f"{vmlinux}: is not the kernel that runs here: build-id {expected}, running is {running}")


def _show(task: Task) -> Callable[[str], None]:
    """Make the callback that shows each value as it comes, on a terminal."""

    def show(line: str) -> None:
        event = parse_line(line, TOKEN)
        if event is not None and event.name == "value":
            name = task.workloads[event.data["workload"]].name
            note(f"{name}: run {event.data['run']} of {task.runs}: {event.data['value']}")

    return show if sys.stderr.isatty() else lambda line: None


def _summary(record: Record, path: Path) -> list[str]:
    boot = record.boot
    lines = [f"{path}: boot {boot.boot_id} recorded as {boot.variant}"]
    for workload in record.setup.workloads:
        values = ", ".join(f"{value:g}" for value in boot.values[workload.name])
        lines.append(f"{workload.name}: {values} {workload.unit}")
    if (seen := boot.readback) is not None:
        lines.append(f"read back: {seen.mov} MOV, {seen.nop} NOP in {counted(seen.sites, 'site')}")
    else:
        lines.append(f"not read back: {boot.gate_before.get('unread')}")
    if boot.void is not None:
        lines.append(f"void, does not count: {boot.void}")
    return lines


def _label(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise argparse.ArgumentTypeError(f"not a label: {text!r}")
    return text
