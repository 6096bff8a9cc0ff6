"""A comparison for a mail (plain text) and for a web page (Markdown)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from prologue_bench.analysis.compare import Comparison, Report, WorkloadReport
from prologue_bench.analysis.series import Series
from prologue_bench.report import words
from prologue_bench.report.group_words import board_sentences, boards_used, layout_sentences
from prologue_bench.report.layout import command_lines, markdown, markdown_table, text_table, wrapped
from prologue_bench.report.rounding import rounded
from prologue_bench.results.model import Workload


def to_text(report: Report, command: Sequence[str]) -> str:
    """Write the report as plain text; ``command`` makes it again."""
    lines = first_lines(report.first_lines)
    for part in report.workloads:
        lines += title(part.workload)
        if part is report.workloads[0]:  # once is enough
            lines += [line for proof in report.results.campaign.same_link for line in wrapped(proof)]
        head, rows, right = comparison_table(part, report.margin)
        lines += ["", *text_table(head, rows, right), ""]
        if verdicts := [line for sentence in sentences(part, report.margin) for line in wrapped(sentence)]:
            lines += [*verdicts, ""]
    for sentence in foot(report):
        lines += wrapped(sentence)
    lines += _recorded_by(report.results.campaign.command)
    return "\n".join([*lines, *command_lines(["$", *command])]) + "\n"


def _recorded_by(command: str | None) -> list[str]:
    if command is None:
        return []
    try:
        words = shlex.split(command)
    except ValueError:  # quotes that do not match: no command of ours
        return wrapped(f"recorded by: {command}")
    return ["recorded by:", *command_lines(["$", *words], "  ")]


def to_markdown(report: Report, command: Sequence[str]) -> str:
    """Write the report as Markdown."""
    lines = [f"**{markdown(line)}**\n" for line in report.first_lines]
    for part in report.workloads:
        lines += [f"### {markdown(heading(part.workload))}", ""]
        if part is report.workloads[0]:
            for proof in report.results.campaign.same_link:
                lines += [markdown(proof), ""]
        head, rows, right = comparison_table(part, report.margin)
        lines += [*markdown_table(head, rows, right), ""]
        lines += [*(f"- {markdown(sentence)}" for sentence in sentences(part, report.margin)), ""]
    last = list(foot(report))
    if recorded := report.results.campaign.command:
        last.append(f"recorded by: {recorded}")
    lines += [*(f"- {markdown(sentence)}" for sentence in last), "", "```", *command_lines(command), "```"]
    return "\n".join(lines) + "\n"


def first_lines(sentences: Sequence[str]) -> list[str]:
    """Write what stands above everything else, and an empty line after it."""
    lines = [line for sentence in sentences for line in wrapped(sentence)]
    return [*lines, ""] if lines else []


def title(workload: Workload) -> list[str]:
    """Say what was run, in which unit, and which direction is the better one."""
    lines = wrapped(heading(workload))
    return lines if workload.command == workload.name else [*lines, *wrapped(workload.command, "  $ ", "    ")]


def heading(workload: Workload) -> str:
    """Return the same in one line."""
    return f"{workload.name}; {workload.unit}, {workload.direction} is better"


def comparison_table(report: WorkloadReport, margin: float) -> tuple[list[str], list[list[str]], list[int]]:
    """Return head, rows and the numbers of the numeric columns; what evidence cannot give has no column."""
    error = max(series.error for series in report.series)
    medians = {series.label: rounded(series.median, error) for series in report.series}
    if not report.comparisons:
        return ["variant", "median"], [[label, median] for label, median in medians.items()], [1]
    base, *others = report.series
    compared = {comparison.variant: comparison for comparison in report.comparisons}
    if any(comparison.exact for comparison in report.comparisons):
        return ["variant", "count", "vs base (exact)"], _exact_rows(base, others, compared), [1, 2]
    control = None if report.control is None else report.control.effect
    rows = [[base.label, medians[base.label], "base", "", ""]]
    for series in others:
        comparison = compared[series.label]
        floor = "" if control is None or comparison is report.control else words.floor(control)
        delta = "" if comparison.effect is None else words.change(comparison.effect)
        rows.append(
            [series.label, medians[series.label], delta, floor, words.short_verdict(report, comparison, margin)]
        )
    head = ["variant", "median", "vs base [95% CI]", "A/A", "verdict"]
    if control is None:
        return [*head[:3], head[4]], [[*row[:3], row[4]] for row in rows], [1]
    return head, rows, [1, 3]


def _exact_rows(base: Series, others: Sequence[Series], compared: dict[str, Comparison]) -> list[list[str]]:
    rows = [[base.label, words.span(base.medians.tolist(), ","), "base"]]
    for series in others:
        count = words.span(series.medians.tolist(), ",")
        rows.append([series.label, count, words.exact_change(compared[series.label])])
    return rows


def sentences(report: WorkloadReport, margin: float) -> Iterator[str]:
    """Yield what may be said of a workload; nothing if counts are exact or nothing was compared."""
    if not report.comparisons or report.comparisons[0].exact:
        return
    yield from (words.verdict(report, comparison, margin) for comparison in report.comparisons)
    yield from words.robust(report)
    yield from words.trend(report.trend)
    yield from words.medians_note(report)
    yield from board_sentences(report)
    yield from layout_sentences(report, margin)
    if method := words.method(report):
        yield method
    yield from words.flagged(report)


def foot(report: Report) -> Iterator[str]:
    """Yield what holds for all workloads: limits, design, caveats, setup."""
    results, campaign = report.results, report.results.campaign
    yield from words.limits(campaign)
    if results.boots_known or campaign.evidence == "smoke":
        yield words.design(results)
    if boards := boards_used(results):
        yield boards
    yield from words.caveats(report)
    yield from words.setup_facts(campaign)
    yield from results.notes
