"""What boot-time prologues cost, counted: `boot` and `build` of the same link, from reset to init.

    python bench/exact_boot.py VMLINUX...

The vmlinux files are as linked. Two minutes at the most for each; two boots of each variant must agree in every number.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path

from tabulate import tabulate

from prologue.cli.main import main as prologue
from prologue.sites.kernel import Kernel
from prologue_bench.errors import BenchError
from prologue_bench.icount.boot import Counts, count_boot

SCHEMA = "prologue.exact-boot/1"


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel, both variants."""

    release: str
    sites: int
    boot: Counts
    build: Counts

    @property
    def saved(self) -> int:
        """Instructions that ftrace_init does not execute in the variant `build`."""
        return self.boot.inside - self.build.inside


def measure(vmlinux: Path, cpu: str) -> Row:
    """Make the variants and count both; raises BenchError and PrologueError."""
    kernel = Kernel(vmlinux)
    counts = {}
    with tempfile.TemporaryDirectory(prefix="prologue-exact-") as name:
        for kind in ("boot", "build"):
            path = Path(name) / kind
            with redirect_stdout(sys.stderr):
                status = prologue(["variant", str(vmlinux), "--kind", kind, "-o", str(path)])
            if status:
                raise BenchError(f"{vmlinux}: there is no variant {kind} of it")
            counts[kind] = count_boot(path, cpu)
    return Row(kernel.release.partition("-")[0], len(kernel.sites or ()), counts["boot"], counts["build"])


def table(rows: list[Row]) -> str:
    """ASCII, 75 columns at the most."""
    lines: list[tuple[str, ...]] = []
    for row in rows:
        for kind, counts in (("boot", row.boot), ("build", row.build)):
            inside = counts.stores_inside
            numbers = (counts.instructions, counts.inside, inside.first, inside.literal // 2, inside.other)
            lines.append((row.release if kind == "boot" else "", kind, *(f"{number:,}" for number in numbers)))
        less = (row.build.instructions - row.boot.instructions, row.build.inside - row.boot.inside)
        lines.append(("", "change", *(f"{number:+,}" for number in less), "", "", ""))
    headers = ("kernel", "variant", "to init", "ftrace_init", "MOVs", "literals", "other")
    body = tabulate(
        lines, headers, tablefmt="plain", disable_numparse=True, colalign=("left", "left", *(["right"] * 5))
    )
    per_site = "\n".join(
        f"{row.release}: {row.sites:,} sites, {row.saved / row.sites:,.0f} instructions less for each in ftrace_init"
        for row in rows
    )
    return (
        "exact: guest instructions from reset to init, and in ftrace_init;\n"
        "text words that ftrace_init writes (QEMU icount, 1 CPU, two equal runs)\n\n"
        f"{body}\n\n{per_site}\n"
        "NOP and MOV count one each: this says nothing about what a MOV costs."
    )


def main() -> int:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vmlinux", type=Path, nargs="+", metavar="VMLINUX")
    parser.add_argument("--cpu", default="cortex-a57", help="QEMU's -cpu (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help=f"print JSON (schema {SCHEMA})")
    args = parser.parse_args()
    try:
        rows = [measure(path, args.cpu) for path in args.vmlinux]
    except BenchError as error:
        print(f"exact_boot: {error}", file=sys.stderr)
        return error.exit_code
    print(json.dumps({"schema": SCHEMA, "kernels": [asdict(r) for r in rows]}, indent=2) if args.json else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
