"""Parts that several commands share: options, their defaults, and how results are named and printed."""

from __future__ import annotations

import argparse
import math
import sys
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from prologue.cli import arguments
from prologue.cli.arguments import number_from
from prologue.outputs import new_file, require_other
from prologue.report.terminal import is_quiet
from prologue_bench.analysis.compare import MARGIN
from prologue_bench.guest.vm import Machine
from prologue_bench.results.store import CAMPAIGN, RESULTS

MACHINE: Final = Machine()
TIMEOUT: Final = 600  # seconds
RUNS: Final = 3  # of each workload in a boot
_MOST_CPUS: Final = 64  # of recordings: MAX_CPUS in exact/plugin/


def add_machine(added: argparse._ActionsContainer, *, least_ram: int, ram: int) -> None:
    """Add what describes a guest that is recorded, and how long it may take."""
    added.add_argument("--append", default="", metavar="WORDS", help="for the kernel's command line")
    added.add_argument(
        "--cpu-model", default=MACHINE.cpu, metavar="MODEL", help="a CPU model of QEMU (default: %(default)s)"
    )
    added.add_argument(
        "--cpus", type=number_from(1, _MOST_CPUS), default=MACHINE.cpus, metavar="N", help="CPUs (default: %(default)s)"
    )
    added.add_argument(
        "--ram", type=number_from(least_ram), default=ram, metavar="MIB", help="RAM (default: %(default)s)"
    )  # fmt: skip
    added.add_argument(
        "--timeout", type=number_from(1), default=TIMEOUT, metavar="SECONDS",
        help="wall time, at most (default: %(default)s)",
    )  # fmt: skip


def machine_of(args: Namespace) -> Machine:
    """Return the machine that these options describe."""
    return Machine(cpu=args.cpu_model, cpus=args.cpus, memory=args.ram)


def repeat_command(args: Namespace, name: str) -> list[str]:
    """Write the command that makes the same report again."""
    margin = getattr(args, "margin", MARGIN)
    options = [] if margin == MARGIN else ["--margin", f"{100 * margin:.12g}"]
    return ["prologue", "bench", name, *args.results, *options]


def put(text: str, output: Path | None = None) -> int:
    """Write a report to a file, or to standard output.

    Returns:
        0, the exit code.

    """
    if output is None:
        sys.stdout.write(text)
        return 0
    with new_file(output) as temporary:
        temporary.write_text(text, encoding="utf-8")
    if not is_quiet():
        print(f"{output}: written")
    return 0


def require_no_input(output: Path | None, results: Iterable[str]) -> None:
    """Refuse to write a report over what it is made of; it may lie in a result set, beside that.

    Raises:
        UsageError: it is one of these files.

    """
    inputs = (Path(name) / file for name in results for file in ("", CAMPAIGN, RESULTS))
    require_other(output, *(path for path in inputs if not path.is_dir()))


def add_results(added: argparse.ArgumentParser) -> None:
    """Add what the samples are read from."""
    added.add_argument(
        "results", nargs="+", metavar="RESULTS",
        help="result set (a directory; several of one setup are merged), records (.jsonl) or logs (.log) of "
        "bench record, a table made by hand (.json), files of other programs (LABEL=FILE: hackbench's output, CSV, "
        "hyperfine, pyperf, Go's benchmarks), or example:NAME",
    )  # fmt: skip


def add_counters(added: argparse.ArgumentParser) -> None:
    """Add whether events of the CPU are counted."""
    added.add_argument(
        "--counters", action="store_true",
        help="count instructions, cycles, stalls, L1I and ITLB refills in each run, by perf_event_open",
    )  # fmt: skip


def add_margin(added: argparse.ArgumentParser) -> None:
    """Add the margin of equivalence."""
    added.add_argument(
        "--margin", type=percent, default=MARGIN, metavar="PERCENT",
        help=f"differences inside it count as equivalent (default: {100 * MARGIN:g})",
    )  # fmt: skip


def add_format(added: argparse.ArgumentParser, schema: str, *more: str) -> None:
    """Add how the report is printed; ``more`` are forms that other reports do not have."""
    arguments.add_format(added, schema, "markdown", *more)


def percent(text: str) -> float:
    """Read a percentage; raises ArgumentTypeError."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = math.nan
    if not 0 < value < 100:
        raise argparse.ArgumentTypeError(f"not a percentage between 0 and 100: {text!r}")
    return value / 100
