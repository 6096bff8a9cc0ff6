"""What ftrace's work at boot costs in instructions, and which text it writes: a table for a mail.

    .venv/bin/python bench/exact_counts.py [--json] [--cpu-model MODEL] [--append WORDS] VMLINUX...

Each VMLINUX is the kernel as linked; it is counted as that (variant `boot`) and processed (variant `build`). Give
`--cpu-model max,pauth-impdef=on` for a kernel with BTI or PAC. A processed copy of VMLINUX needs its room in TMPDIR.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from tabulate import tabulate

from prologue.cli.main import main as prologue
from prologue.errors import PrologueError
from prologue_bench.errors import BenchError
from prologue_bench.exact.boot import Counts, MaintenanceCounts, count_boot
from prologue_bench.exact.emulator import ONE_CPU
from prologue_bench.guest.vm import Machine, qemu_version

SCHEMA = "prologue.exact-counts/1"
NOTES = """\
evidence: exact. Guest instructions under QEMU icount, one CPU, no KASLR,
crypto self-tests off; each count was taken twice, and both were equal. NOP
and MOV both count 1: counts show work at boot, not the cost of the MOV.
Text is counted in words of 4 bytes; a CALL_OPS literal is two. DC, IC
and TLBI maintain caches and TLBs, DSB and ISB wait for that.
What follows a shorter ftrace_init sees other timestamps (random numbers,
the scheduler), so the whole boot changes by a little more or less than it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Both variants of one link."""

    vmlinux: Path
    boot: Counts
    build: Counts


def count_pair(vmlinux: Path, machine: Machine, append: str) -> Pair:
    """Make both variants and count their boots."""
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
            counts[kind] = count_boot(variant, directory, machine, append=append)
            took = f"{counts[kind].release} {kind}: booted twice in {time.monotonic() - begin:.0f} s, equal"
            print(f"exact_counts: {took}", file=sys.stderr, flush=True)
            variant.unlink()
    return Pair(vmlinux, counts["boot"], counts["build"])


def table(pairs: list[Pair]) -> str:
    """The results as plain text, 75 columns at most."""
    rows: list[tuple[str, str, str, str]] = []
    for pair in pairs:
        if rows:
            rows.append(("", "", "", ""))
        rows.append((pair.boot.release[:30], "", "", ""))
        rows.append(("sites", f"{pair.boot.sites:,}", f"{pair.build.sites:,}", ""))
        rows.append(_row("instructions, reset to init", pair.boot.instructions, pair.build.instructions))
        rows.append(_row("  of them in ftrace_init", pair.boot.ftrace_init, pair.build.ftrace_init))
        a, b = (counts.ftrace_init / counts.sites for counts in (pair.boot, pair.build))
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
    body = tabulate(
        rows, ("", "boot", "build", "change"), tablefmt="simple", disable_numparse=True,
        colalign=("left", "right", "right", "right"), preserve_whitespace=True,
    )  # fmt: skip
    return "\n".join(line.rstrip() for line in body.splitlines())


def _maintenance_rows(boot: MaintenanceCounts, build: MaintenanceCounts) -> Iterator[tuple[str, str, str, str]]:
    """Instructions in ftrace_init that maintain caches and TLBs, or wait for that."""
    head = "executed there: "
    for field in fields(MaintenanceCounts):
        yield _row(f"  {head}{field.name.upper()}", getattr(boot, field.name), getattr(build, field.name))
        head = " " * len(head)


def _row(what: str, boot: int, build: int) -> tuple[str, str, str, str]:
    return what, f"{boot:,}", f"{build:,}", f"{build - boot:+,}" if build != boot else "0"


def report(pairs: list[Pair], cpu: str) -> str:
    """The table with what it means."""
    head = f"prologues written at boot or by the build, same link; lower is better\nQEMU {qemu_version()}, {cpu}"
    return f"{head}\n\n{table(pairs)}\n\n{NOTES}"


def to_json(pairs: list[Pair], cpu: str) -> str:
    """All counts; instructions, and text in 4-byte words."""
    kernels = [{"vmlinux": str(p.vmlinux), "boot": asdict(p.boot), "build": asdict(p.build)} for p in pairs]
    data = {"schema": SCHEMA, "evidence": "exact", "qemu": str(qemu_version()), "cpu": cpu, "kernels": kernels}
    return json.dumps(data, indent=2)


def main() -> int:
    """Parse, count, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vmlinux", nargs="+", type=Path)
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--cpu-model", default=ONE_CPU.cpu, help="QEMU's CPU model (default: %(default)s)")
    parser.add_argument("--append", default="", metavar="WORDS", help="more of the kernel's command line")
    args = parser.parse_args()
    machine = replace(ONE_CPU, cpu=args.cpu_model)
    try:
        pairs = [count_pair(path, machine, args.append) for path in args.vmlinux]
        print(to_json(pairs, args.cpu_model) if args.json else report(pairs, args.cpu_model))
    except PrologueError as error:
        print(f"exact_counts: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
