"""``prologue bench``: its part of the grammar, and the way to its handlers, which live in another package."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

from prologue.cli import bench_export, bench_record, bench_run, bench_writes
from prologue.cli.bench_defaults import MARGIN
from prologue.cli.subcommands import Subcommand, add_command, add_commands
from prologue.errors import InternalError, PrologueError, UsageError, how_to_install

# What the bench needs beyond the tool itself.
_EXTRA: Final = ("prologue_bench", "scipy", "matplotlib", "qemu")
_FORMATS: Final = ("text", "markdown", "csv", "json")


@dataclass(frozen=True, slots=True)
class BenchCommand:
    """One command of the bench; its handler is ``run`` in the bench's ``cli/NAME.py``."""

    name: str
    help: str
    examples: str
    add_options: Callable[[argparse.ArgumentParser], None]


def run(args: argparse.Namespace) -> int:
    """Call the handler of the command named in ``args.bench``.

    Raises:
        UsageError: the bench, or a library that only it needs, is not installed.

    """
    with require_bench():
        return int(import_module(f"prologue_bench.cli.{args.bench}").run(args))


@contextmanager
def require_bench() -> Iterator[None]:
    """Say in one line what is not installed.

    Raises:
        UsageError: the bench, or a library that only it needs, is not installed.

    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise _not_installed(error) from error


def _not_installed(error: ModuleNotFoundError) -> PrologueError:
    package = (error.name or "").partition(".")[0]
    if package in _EXTRA:
        return UsageError(f"bench needs {package}, which is not installed: {how_to_install('bench')}")
    return InternalError(str(error))


def add_bench(group: Subcommand) -> None:
    """Give ``bench`` its commands."""
    actions = add_commands(group)
    for each in _COMMANDS:
        added = add_command(actions, each.name, "prologue.cli.bench:run", each.help, each.examples)
        added.set_defaults(bench=each.name)
        added.when_chosen(each.add_options)


def _add_compare_options(added: argparse.ArgumentParser) -> None:
    _add_results(added)
    added.add_argument(
        "--links", action="store_true",
        help="kernels of several links side by side, by exact counts of their boots (icount): RESULTS are directories, "
        "or LABEL=DIRECTORY (json: schema prologue.bench-links/1)",
    )  # fmt: skip
    _add_margin(added)
    _add_format(added, "bench-compare")


def _add_table_options(added: argparse.ArgumentParser) -> None:
    _add_results(added)
    _add_format(added, "bench-table")


def _add_plot_options(added: argparse.ArgumentParser) -> None:
    _add_results(added)
    _add_margin(added)
    added.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="picture: FILE.png, .svg or .pdf"
    )


def _add_export_options(added: argparse.ArgumentParser) -> None:
    _add_results(added)
    bench_export.add_options(added)


def _add_results(added: argparse.ArgumentParser) -> None:
    added.add_argument(
        "results", nargs="+", metavar="RESULTS",
        help="result set (a directory; several of one setup are merged), records (.jsonl) or logs (.log) of "
        "bench record, a table made by hand (.json), or example:NAME",
    )  # fmt: skip


def _add_margin(added: argparse.ArgumentParser) -> None:
    added.add_argument(
        "--margin", type=_margin, default=MARGIN, metavar="PERCENT",
        help=f"differences inside it count as equivalent (default: {100 * MARGIN:g})",
    )  # fmt: skip


def _add_format(added: argparse.ArgumentParser, schema: str) -> None:
    added.add_argument(
        "--format", choices=_FORMATS, default="text", help=f"of the report (json: schema prologue.{schema}/1)"
    )


def _margin(text: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = math.nan
    if not 0 < value < 100:
        raise argparse.ArgumentTypeError(f"not a percentage between 0 and 100: {text!r}")
    return value / 100


_COMMANDS: Final = (
    BenchCommand("run", bench_run.HELP, bench_run.EXAMPLES, bench_run.add_options),
    BenchCommand("record", bench_record.RECORD_HELP, bench_record.RECORD_EXAMPLES, bench_record.add_record_options),
    BenchCommand(
        "compare",
        "compare variants with the base: difference, interval, verdict",
        "  prologue bench compare example:2019-a57\n  prologue bench compare results/ --margin 0.5\n"
        "  prologue bench compare monday/ tuesday/ --format json\n"
        "  prologue bench compare --links stock/ rival/ native/",
        _add_compare_options,
    ),
    BenchCommand(
        "table",
        "describe what was measured: quartiles, extremes, outliers",
        "  prologue bench table example:2019-a53\n  prologue bench table results/ --format csv",
        _add_table_options,
    ),
    BenchCommand(
        "plot",
        "draw every sample, and every difference with its interval",
        "  prologue bench plot example:2019-a53 -o a53.png\n  prologue bench plot results/ -o results.svg --margin 0.5",
        _add_plot_options,
    ),
    BenchCommand("export", bench_export.HELP, bench_export.EXAMPLES, _add_export_options),
    BenchCommand("doctor", bench_record.DOCTOR_HELP, bench_record.DOCTOR_EXAMPLES, bench_record.add_doctor_options),
    BenchCommand("writes", bench_writes.HELP, bench_writes.EXAMPLES, bench_writes.add_options),
)
