"""What ftrace's work at boot costs in instructions, and which text it writes: a table for a mail.

    .venv/bin/python bench/exact_counts.py [--json] [--cpu-model MODEL] [--append WORDS] VMLINUX...
    .venv/bin/python bench/exact_counts.py [--json] [--cpu-model MODEL] --workload 'hackbench -g 1 -l 20' VMLINUX...

Each VMLINUX is the kernel as linked; it is counted as that (variant `boot`) and processed (variant `build`). Give
`--cpu-model max,pauth-impdef=on` for a kernel with BTI or PAC. A processed copy of VMLINUX needs its room in TMPDIR.
With `--workload`, a program of the guest's (hackbench, busybox) is counted in place of the boot: its instructions, and
the prologues that were executed in them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Generic, TypeVar

from tabulate import tabulate

from prologue.cli.main import main as prologue
from prologue.errors import PrologueError
from prologue_bench.errors import BenchError
from prologue_bench.exact.boot import Counts, MaintenanceCounts, count_boot
from prologue_bench.exact.emulator import ONE_CPU
from prologue_bench.exact.entered import entered_table
from prologue_bench.exact.workload import WorkloadCounts, count_workload
from prologue_bench.guest.vm import qemu_version
from prologue_bench.targets.icount import read_argv

SCHEMA = "prologue.exact-counts/1"
WORKLOAD_SCHEMA = "prologue.exact-workload/1"
NOTES = """\
evidence: exact. Guest instructions under QEMU icount, one CPU, no KASLR,
crypto self-tests off; each count was taken twice, and both were equal. NOP
and MOV both count 1: counts show work at boot, not the cost of the MOV.
Text is counted in words of 4 bytes; a CALL_OPS literal is two. DC, IC
and TLBI maintain caches and TLBs, DSB and ISB wait for that.
What follows a shorter ftrace_init sees other timestamps (random numbers,
the scheduler), so the whole boot changes by a little more or less than it."""


WORKLOAD_NOTES = """\
evidence: exact. Guest instructions under QEMU icount, one CPU, no KASLR,
from before the program's fork until it was waited for; each count was
taken twice, and both were equal. A prologue is a first slot executed. What
boots faster sees another clock in its scheduler: instructions of variants
differ by that, so read the density, not the difference. NOP and MOV both
count 1: this shows how many there are, not what they cost."""


_Kind = TypeVar("_Kind", Counts, WorkloadCounts)


@dataclass(frozen=True, slots=True)
class Pair(Generic[_Kind]):
    """Both variants of one link."""

    vmlinux: Path
    boot: _Kind
    build: _Kind


def progress(text: str) -> None:
    """Report progress on stderr."""
    print(f"exact_counts: {text}", file=sys.stderr, flush=True)


def count_pair(vmlinux: Path, count: Callable[[Path, Path], _Kind]) -> Pair[_Kind]:
    """Make both variants and count them; ``count`` is called with the variant and a directory."""
    counts = {}
    with tempfile.TemporaryDirectory(prefix="exact-counts-") as name:
        directory = Path(name)
        for kind in ("boot", "build"):
            variant = directory / "vmlinux"
            with contextlib.redirect_stdout(sys.stderr):
                status = prologue(["variant", str(vmlinux), "--kind", kind, "-o", str(variant)])
            if status:
                raise BenchError(f"{vmlinux}: no variant {kind} (see above)")
            begin = time.monotonic()
            counts[kind] = count(variant, directory)
            progress(f"{counts[kind].release} {kind}: booted twice in {time.monotonic() - begin:.0f} s, equal")
            variant.unlink()
    return Pair(vmlinux, counts["boot"], counts["build"])


def table(pairs: list[Pair[Counts]]) -> str:
    """The results as plain text, 75 columns at most."""
    rows: list[tuple[str, str, str, str]] = []
    for pair in pairs:
        if rows:
            rows.append(("", "", "", ""))
        rows.append((pair.boot.release[:30], "", "", ""))
        rows.append(("sites", f"{pair.boot.sites:,}", f"{pair.build.sites:,}", ""))
        rows.append(_row("instructions, reset to init", pair.boot.instructions, pair.build.instructions))
        rows.append(_row("  of them in ftrace_init", pair.boot.ftrace_init, pair.build.ftrace_init))
        a, b = pair.boot.per_site, pair.build.per_site
        rows.append(("    per site", f"{a:,.1f}", f"{b:,.1f}", f"{b - a:+,.1f}"))
        rows.append(_row("  of them in relocation", pair.boot.relocation, pair.build.relocation))
        before, after = asdict(pair.boot.ftrace_init_words), asdict(pair.build.ftrace_init_words)
        rows.append(_row("text words, reset to init", pair.boot.words.total, pair.build.words.total))
        rows.append(_row("  in ftrace_init: first slots", before["first"], after["first"]))
        for what, name in (("second slots", "second"), ("literals", "literal"), ("other", "other")):
            rows.append(_row(f"{'':18}{what}", before[name], after[name]))
        lines = [pair.boot.ftrace_init_lines, pair.build.ftrace_init_lines]
        rows.append(_row("text lines read in ftrace_init", *(line.read for line in lines)))
        rows.append(_row("  written", *(line.written for line in lines)))
        rows += _maintenance_rows(pair.boot.ftrace_init_maintenance, pair.build.ftrace_init_maintenance)
    return _tabulate(rows, ("", "boot", "build", "change"))


def _maintenance_rows(boot: MaintenanceCounts, build: MaintenanceCounts) -> Iterator[tuple[str, str, str, str]]:
    """Instructions in ftrace_init that maintain caches and TLBs, or wait for that."""
    head = "executed there: "
    for field in fields(MaintenanceCounts):
        yield _row(f"  {head}{field.name.upper()}", getattr(boot, field.name), getattr(build, field.name))
        head = " " * len(head)


def workload_table(pair: Pair[WorkloadCounts]) -> str:
    """Counts of both variants, and what was entered most often in the kernel as linked; 75 columns at most."""
    rows = [
        (what, *(f"{getattr(counts, name):,}" for counts in (pair.boot, pair.build)))
        for what, name in (("instructions", "instructions"), ("  in the kernel", "kernel"), ("  in user space", "user"),
                           ("prologues executed", "prologues"))
    ]  # fmt: skip
    for what, name in (
        ("  per 1000 instructions", "per_thousand"),
        ("  per 1000 of the kernel", "per_thousand_kernel"),
    ):
        rows.append((what, *(f"{getattr(counts, name):.2f}" for counts in (pair.boot, pair.build))))
    functions = (f"{len(counts.entered):,}" for counts in (pair.boot, pair.build))
    rows.append(("functions entered", *functions))
    head = f"{shlex.join(pair.boot.argv)}, {pair.boot.release}"
    return f"{head}\n\n{_tabulate(rows, ('', 'boot', 'build'))}\n\nvariant boot:\n{entered_table(pair.boot.entered)}"


def _tabulate(rows: Sequence[tuple[str, ...]], headers: tuple[str, ...]) -> str:
    align = ("left", *("right",) * (len(headers) - 1))
    body = tabulate(
        rows, headers, tablefmt="simple", disable_numparse=True, colalign=align, preserve_whitespace=True
    )  # fmt: skip
    return "\n".join(line.rstrip() for line in body.splitlines())


def _row(what: str, boot: int, build: int) -> tuple[str, str, str, str]:
    return what, f"{boot:,}", f"{build:,}", f"{build - boot:+,}" if build != boot else "0"


def report(pairs: list[Pair[Counts]], cpu: str) -> str:
    """The table with what it means."""
    head = f"prologues written at boot or by the build, same link; lower is better\n{_machine(cpu)}"
    return f"{head}\n\n{table(pairs)}\n\n{NOTES}"


def workload_report(pairs: list[Pair[WorkloadCounts]], cpu: str) -> str:
    """The tables with what they mean."""
    head = f"prologues executed in a fixed workload, same link\n{_machine(cpu)}"
    return "\n\n".join([head, *map(workload_table, pairs), WORKLOAD_NOTES])


def _machine(cpu: str) -> str:
    return f"QEMU {qemu_version()}, {cpu}"


def to_json(pairs: list[Pair[Counts]] | list[Pair[WorkloadCounts]], cpu: str) -> str:
    """All counts; instructions, and text in 4-byte words."""
    kernels = [{"vmlinux": str(p.vmlinux), "boot": asdict(p.boot), "build": asdict(p.build)} for p in pairs]
    schema = SCHEMA if isinstance(pairs[0].boot, Counts) else WORKLOAD_SCHEMA
    data = {"schema": schema, "evidence": "exact", "qemu": str(qemu_version()), "cpu": cpu, "kernels": kernels}
    return json.dumps(data, indent=2)


def main() -> int:
    """Parse, count, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vmlinux", nargs="+", type=Path)
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--cpu-model", default=ONE_CPU.cpu, help="QEMU's CPU model (default: %(default)s)")
    parser.add_argument("--append", default="", metavar="WORDS", help="more of the kernel's command line, for a boot")
    parser.add_argument("--workload", metavar="COMMAND", help="count this program in place of the boot")
    args = parser.parse_args()
    if args.append and args.workload:
        parser.error("--append is for counts of a boot, --workload has its own command line")
    machine = replace(ONE_CPU, cpu=args.cpu_model)
    try:
        if args.workload is None:
            boots = [
                count_pair(path, lambda kernel, at: count_boot(kernel, at, machine, append=args.append))
                for path in args.vmlinux
            ]
            print(to_json(boots, args.cpu_model) if args.json else report(boots, args.cpu_model))
        else:
            argv = read_argv(args.workload)
            runs = [
                count_pair(path, lambda kernel, at: count_workload(kernel, at, argv, machine)) for path in args.vmlinux
            ]
            print(to_json(runs, args.cpu_model) if args.json else workload_report(runs, args.cpu_model))
    except PrologueError as error:
        print(f"exact_counts: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
