"""``python -m tests.kernels.soak``: boots one kernel many times, and says how many boots did not come to their end.

    python -m tests.kernels.soak --mini 4,2 -n 1000 -o soak/            # the mini kernel with marker 2, processed
    python -m tests.kernels.soak --vmlinux vmlinux.new --minutes 15 -o soak/    # a real one, with the trace script

Two CPUs, KASLR as the kernel has it. A boot is well if the guest did all that it is to do, complained of nothing, and
powered off within its time. Logs of other boots stay in the directory. Exit status 1 if there was one.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prologue.cli.main import main as prologue
from prologue.errors import PrologueError
from prologue_bench.errors import BenchError, GuestLostError
from prologue_bench.guest.vm import GuestRun, Job, Machine, boot
from tests.mini_kernel.build import Form, Layout, Spec, build
from tests.mini_kernel.run import run as run_mini
from tests.support.guest_jobs import initramfs_with_jobs

FUNCTION: Final = "vfs_write"  # hackbench calls it
JOBS: Final = ("kprobes", "trace_one", "ftrace_cycle")  # the probe before anything was traced
# What a kernel says in its log, and never should.
COMPLAINTS: Final = ("WARNING:", "ftrace bug", "BUG:", "rcu: INFO", "Oops", "ftrace: no MOV", "ftrace: no function")
_EVERY: Final = 50  # boots between two lines of progress


@dataclass(frozen=True, slots=True)
class Outcome:
    """One boot; ``problem`` is empty if it was well."""

    number: int
    seconds: float
    problem: str


Boot = Callable[[Path, float], str]  # log, timeout: what was wrong


def soak(boot_once: Boot, directory: Path, *, count: int, minutes: float, timeout: float) -> Iterator[Outcome]:
    """Boot ``count`` times, or until the minutes are over; the log of each boot that was not well stays."""
    end = time.monotonic() + 60 * minutes
    for number in range(1, count + 1):
        if time.monotonic() > end:
            return
        log, begin = directory / f"boot-{number}.log", time.monotonic()
        problem = boot_once(log, timeout)
        if not problem:
            log.unlink(missing_ok=True)
        yield Outcome(number, time.monotonic() - begin, problem)


def mini_boot(spec: Spec, directory: Path) -> Boot:
    """Boots of the mini kernel, built and processed in the directory."""
    vmlinux = build(spec, directory)
    tool("patch", str(vmlinux), "--in-place", "-q")

    def once(log: Path, timeout: float) -> str:
        seen = run_mini(vmlinux, timeout)
        vmlinux.with_suffix(".log").rename(log)
        return "" if seen.passed and seen.values.get("writes") == "0" else seen.verdict

    return once


def real_boot(vmlinux: Path, machine: Machine, cycles: int, directory: Path, *, jobs: tuple[str, ...] = JOBS) -> Boot:
    """Boots of a kernel with the jobs of the guest: one function, a kprobe, both tracers on everything."""
    image, initramfs = directory / "Image", initramfs_with_jobs()
    tool("image", str(vmlinux), "-o", str(image))
    parameters = (("function", FUNCTION), ("offsets", "0"), ("cycles", cycles))

    def once(log: Path, timeout: float) -> str:
        job = Job(names=jobs, parameters=parameters, timeout=timeout)
        try:
            seen = boot(image, initramfs, log, job, machine=machine)
        except GuestLostError as error:
            return str(error.message).partition("\n")[0]
        return "; ".join(_problems(seen, 1 + 2 * cycles))

    return once


def _problems(seen: GuestRun, traces: int) -> list[str]:
    """What a boot complained of, and what it did not do."""
    problems = [line for line in seen.lines if any(word in line for word in COMPLAINTS)]
    entries = [event.data["entries"] for event in seen.all("traced")]
    if len(entries) != traces or not all(entries):
        problems.append(f"entries of the traces: {entries}")
    for event in seen.events:
        idle = event.name == "kprobe" and not event.data["hits"]
        idle |= event.name == "instance" and not (event.data["entries"] and event.data["other"])
        if idle or event.name in ("error", "dmesg") or not event.data.get("ok", True):
            problems.append(f"{event.name}: {event.data}")
    return problems


def report(outcomes: list[Outcome], asked: int) -> str:
    """How many, how long, and which did not end well."""
    bad = [outcome for outcome in outcomes if outcome.problem]
    seconds = [outcome.seconds for outcome in outcomes]
    lines = [f"{len(outcomes)} boots of {asked}: {len(outcomes) - len(bad)} well, {len(bad)} not"]
    if seconds:
        lines.append(f"seconds: median {statistics.median(seconds):.2f}, longest {max(seconds):.2f}")
    return "\n".join([*lines, *(f"boot {outcome.number}: {outcome.problem}" for outcome in bad)])


def tool(*words: str) -> None:
    """Run a command of prologue's; raises BenchError if it fails."""
    if prologue(list(words)):
        raise BenchError(f"prologue {' '.join(words)} failed (see above)")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.kernels.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--mini", choices=("2", "4,2"), metavar="LAYOUT", help="the mini kernel with layout 2 or 4,2")
    what.add_argument("--vmlinux", type=Path, help="a kernel as it is")
    parser.add_argument("--form", choices=("static", "rela", "rela-applied", "relr"), default="rela", help="of --mini")
    parser.add_argument("--cpu-model", default=Machine().cpu, help="QEMU's CPU model (default: %(default)s)")
    parser.add_argument("--cycles", type=int, default=1, help="both tracers on everything, so often in a boot")
    parser.add_argument("-n", "--count", type=int, default=1000, metavar="N")
    parser.add_argument("--minutes", type=float, default=60, help="no boot begins after that (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=180, help="seconds of each boot (default: %(default)s)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="a new directory")
    return parser


def main() -> int:
    """Boot, print, exit with 1 if a boot was not well."""
    args = _parser().parse_args()
    layout: Layout = args.mini
    form: Form = args.form
    try:
        args.output.mkdir(parents=True)
        if args.mini:
            once = mini_boot(Spec(layout=layout, form=form, marker=2), args.output)
        else:
            once = real_boot(args.vmlinux, Machine(cpu=args.cpu_model), args.cycles, args.output)
        outcomes: list[Outcome] = []
        for outcome in soak(once, args.output, count=args.count, minutes=args.minutes, timeout=args.timeout):
            outcomes.append(outcome)
            if outcome.problem or outcome.number % _EVERY == 0:
                print(f"soak: boot {outcome.number}: {outcome.problem or 'well'}", file=sys.stderr, flush=True)
    except (PrologueError, FileExistsError) as error:
        print(f"soak: {error}", file=sys.stderr)
        return 2
    print(report(outcomes, args.count))
    return int(any(outcome.problem for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
