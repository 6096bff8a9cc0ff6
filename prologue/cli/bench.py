"""``prologue bench``: its part of the grammar, and the way to its handlers, which live in another package."""

from __future__ import annotations

import argparse
import math
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prologue.cli import bench_record, bench_run
from prologue.cli.subcommands import Subcommand, add_command, add_commands
from prologue.errors import InternalError, PrologueError, UsageError

if TYPE_CHECKING:
    from prologue.cli.bench_record import Command
    from prologue.cli.subcommands import Commands

# What the bench needs beyond the tool itself.
_EXTRA: Final = ("prologue_bench", "scipy", "matplotlib", "qemu")
_FORMATS: Final = ("text", "markdown", "csv", "json")


def run(args: argparse.Namespace) -> int:
    """Call the handler named in ``args.bench`` (``MODULE:FUNCTION``).

    Raises:
        UsageError: the bench, or a library that only it needs, is not installed.

    """
    module, _, function = str(args.bench).partition(":")
    try:
        return int(getattr(import_module(module), function)(args))
    except ModuleNotFoundError as error:
        raise _not_installed(error) from error


def _not_installed(error: ModuleNotFoundError) -> PrologueError:
    package = (error.name or "").partition(".")[0]
    if package in _EXTRA:
        return UsageError(f"bench needs {package}, which is not installed: pip install 'prologue[bench]'")
    return InternalError(str(error))


def add_bench(group: Subcommand) -> None:
    """Give ``bench`` its commands."""
    actions = add_commands(group)
    for add in (_run, bench_record.add_record, _compare, _table, _plot, bench_record.add_doctor):
        add(actions, add_command)


def _bench_command(actions: Commands, command: Command, name: str, handler: str, texts: tuple[str, str]
                   ) -> argparse.ArgumentParser:  # fmt: skip
    added = command(actions, name, "prologue.cli.bench:run", *texts)
    added.set_defaults(bench=handler)
    return added


def _run(actions: Commands, command: Command) -> None:
    bench_run.add_options(_bench_command(actions, command, "run", bench_run.HANDLER, bench_run.TEXTS))


def _compare(actions: Commands, command: Command) -> None:
    texts = (
        "compare variants with the base: difference, interval, verdict",
        "  prologue bench compare example:2019-a57\n  prologue bench compare results/ --margin 0.5\n"
        "  prologue bench compare monday/ tuesday/ --format json",
    )
    added = _bench_command(actions, command, "compare", "prologue_bench.cli.compare:run", texts)
    _takes_results(added)
    _takes_margin(added)
    _takes_format(added, "bench-compare")


def _table(actions: Commands, command: Command) -> None:
    texts = (
        "describe what was measured: quartiles, extremes, outliers",
        "  prologue bench table example:2019-a53\n  prologue bench table results/ --format csv",
    )
    added = _bench_command(actions, command, "table", "prologue_bench.cli.table:run", texts)
    _takes_results(added)
    _takes_format(added, "bench-table")


def _plot(actions: Commands, command: Command) -> None:
    texts = (
        "draw every sample, and every difference with its interval",
        "  prologue bench plot example:2019-a53 -o a53.png\n  prologue bench plot results/ -o results.svg --margin 0.5",
    )
    added = _bench_command(actions, command, "plot", "prologue_bench.cli.plot:run", texts)
    _takes_results(added)
    _takes_margin(added)
    added.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="picture: FILE.png or FILE.svg")


def _takes_results(added: argparse.ArgumentParser) -> None:
    added.add_argument(
        "results", nargs="+", metavar="RESULTS",
        help="result set (a directory; several of one setup are merged), records (.jsonl) or logs (.log) of "
        "bench record, a table made by hand (.json), or example:NAME",
    )  # fmt: skip


def _takes_margin(added: argparse.ArgumentParser) -> None:
    added.add_argument("--margin", type=_margin, default=0.01, metavar="PERCENT",
                       help="differences inside it count as equivalent (default: 1)")  # fmt: skip


def _takes_format(added: argparse.ArgumentParser, schema: str) -> None:
    added.add_argument("--format", choices=_FORMATS, default="text",
                       help=f"of the report (json: schema prologue.{schema}/1)")  # fmt: skip


def _margin(text: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = math.nan
    if not 0 < value < 100:
        raise argparse.ArgumentTypeError(f"not a percentage between 0 and 100: {text!r}")
    return value / 100
