"""Tables of measurements, for people and for programs; and what exact boots know beyond counts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from prologue_bench.analysis.describe import OUTLIER_RULE, Description, describe
from prologue_bench.analysis.losses import losses_line, losses_of
from prologue_bench.analysis.order import trend_of
from prologue_bench.analysis.series import series_of
from prologue_bench.exact.entered import SUFFIX, entered_table, read_entered
from prologue_bench.report import words
from prologue_bench.report.data import setup
from prologue_bench.report.group_words import boards_used
from prologue_bench.report.layout import command_lines, markdown, markdown_table, text_table, wrapped
from prologue_bench.report.rounding import rounded
from prologue_bench.report.text import first_lines, title
from prologue_bench.results.model import ResultSet
from prologue_bench.results.store import boot_log

SCHEMA: Final = "prologue.bench-table/1"
_HEAD: Final = ("variant", "boots", "runs", "min", "q1", "median", "q3", "max", "out")
_NUMBERS: Final = tuple(range(1, len(_HEAD)))
_SHOWN: Final = 6  # outliers named of one variant


def to_text(results: ResultSet, command: Sequence[str], more: str = "") -> str:
    """Write plain text, 75 columns; ``more`` stands before ``command``, which makes it again."""
    lines = first_lines(_above(results))
    for workload, rows in describe(results):
        lines += [*title(workload), "", *text_table(_HEAD, _cells(rows), _NUMBERS), ""]
        if flagged := [line for sentence in _flagged(rows, results) for line in wrapped(sentence)]:
            lines += [*flagged, ""]
    for sentence in _foot(results):
        lines += wrapped(sentence)
    return "\n".join([*lines, *more.splitlines(), *command_lines(["$", *command])]) + "\n"


def to_markdown(results: ResultSet, command: Sequence[str]) -> str:
    """Write Markdown; ``command`` makes it again."""
    lines = [f"**{markdown(line)}**\n" for line in _above(results)]
    for workload, rows in describe(results):
        lines += [f"### {markdown(' '.join(line.strip() for line in title(workload)))}", ""]
        lines += [*markdown_table(_HEAD, _cells(rows), _NUMBERS), ""]
        if items := [f"- {markdown(sentence)}" for sentence in _flagged(rows, results)]:
            lines += [*items, ""]
    lines += [*(f"- {markdown(sentence)}" for sentence in _foot(results)), "", "```", *command_lines(command), "```"]
    return "\n".join(lines) + "\n"


def _above(results: ResultSet) -> list[str]:
    """Say how many boots were lost or left out, by variant; nothing if none was."""
    counts = losses_of(results)
    return [losses_line(counts)] if any(losses.missing for losses in counts) else []


def _cells(rows: tuple[Description, ...]) -> list[list[str]]:
    error = max(row.error for row in rows)
    cells = []
    for row in rows:
        numbers = (row.minimum, row.low_quartile, row.boot_median, row.high_quartile, row.maximum)
        boots = "?" if row.boots is None else str(row.boots)
        shown = [rounded(number, error) for number in numbers]
        cells.append([row.variant, boots, str(row.runs), *shown, str(len(row.outliers))])
    return cells


def _flagged(rows: tuple[Description, ...], results: ResultSet) -> Iterator[str]:
    names = {boot.number: boot.name for boot in results.boots}
    error = max(row.error for row in rows)
    for row in rows:
        if not row.outliers:
            continue
        named = [
            rounded(outlier.value, error) + ("" if outlier.boot is None else f" ({names[outlier.boot]})")
            for outlier in row.outliers[:_SHOWN]
        ]
        more = len(row.outliers) - len(named)
        yield f"out, {row.variant}: {', '.join(named)}{f' and {more} more' if more else ''}"


def _foot(results: ResultSet) -> Iterator[str]:
    if results.boots_known:
        yield "median: of the boots' medians, as in bench compare; the other numbers are over all runs"
    yield f"out: outliers, {OUTLIER_RULE}; flagged, never dropped"
    for workload in results.campaign.workloads:
        series = [series_of(results, workload.name, variant.label) for variant in results.campaign.variants]
        if (seen := trend_of([part for part in series if part.boots], workload.name)) is not None:
            yield f"{workload.name}, in the course of the campaign: {words.trend_text(seen)}"
    yield f"{results.campaign.evidence} evidence; {words.design(results)}"
    if boards := boards_used(results):
        yield boards
    yield from words.setup_facts(results.campaign)
    yield from results.notes


def _rows(results: ResultSet) -> Iterator[dict[str, Any]]:
    for workload, rows in describe(results):
        for row in rows:
            yield {"workload": workload.name, "unit": workload.unit, "direction": workload.direction, **asdict(row)}


def to_json(results: ResultSet) -> str:
    """Write everything as JSON, described in docs/json.md; nothing is rounded."""
    data = {"schema": SCHEMA, **setup(results), "outlier_rule": OUTLIER_RULE, "rows": list(_rows(results))}
    return json.dumps(data, indent=2) + "\n"


def entries_text(directory: Path, results: ResultSet) -> str:
    """Write the density of prologues, and the base's most entered functions, as its first boot that counts left them.

    Empty if it left none.
    """
    return "\n".join(_entries(directory, results))


def _entries(directory: Path, results: ResultSet) -> Iterator[str]:
    boots = results.valid(results.campaign.base)
    path = boot_log(directory, boots[0].number).with_suffix(SUFFIX) if boots else None
    if path is None or not path.exists():
        return
    for name, entered in read_entered(path).items():
        instructions, kernel, prologues = (
            boots[0].values[workload][0] for workload in (name, f"{name}, in the kernel", f"{name}, prologues")
        )
        yield ""
        yield from wrapped(
            f"{name}, {results.campaign.base}: {1000 * prologues / instructions:.2f} prologues executed in 1000 "
            f"instructions ({1000 * prologues / kernel:.2f} in 1000 of the kernel)"
        )
        yield ""
        yield from entered_table(entered).splitlines()
    yield ""
