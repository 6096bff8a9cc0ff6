"""A comparison as KTAP, with values: for the kernel's test robots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.words import printable
from prologue_bench.analysis.compare import Comparison, Report, WorkloadReport, faster_or
from prologue_bench.analysis.losses import losses_of
from prologue_bench.analysis.series import Series
from prologue_bench.errors import BenchError
from prologue_bench.report import words
from prologue_bench.report.layout import mail

_VERDICTS: Final = ("different", "equivalent")


def to_ktap(report: Report) -> str:
    """Write a test for each workload, in it one for each variant; values, units and variances are diagnostics.

    A variant fails if it is worse and that is a verdict, and not within the margin. Without a verdict it is skipped,
    and so is one of which no boot counts. A workload whose variants are all skipped is skipped. The last test is of
    boots: a variant fails in it if one was lost.

    Raises:
        BenchError: the evidence allows no percentages.

    """
    if (evidence := report.results.campaign.evidence) != "timing":
        raise BenchError(f"--format ktap: {evidence} evidence has no percentages: use text or json")
    of_boots = list(_boots(report, len(report.workloads) + 1))
    lines = ["KTAP version 1", f"1..{len(report.workloads) + bool(of_boots)}"]
    lines += [f"# {mail(line)}" for line in report.first_lines]
    planned = len(report.results.campaign.variants) - 1
    for number, part in enumerate(report.workloads, 1):
        inner, failed = ["KTAP version 1", f"1..{planned}", _diagnostic(part.series[0], part)], False
        for count, comparison in enumerate(part.comparisons, 1):
            series = next(series for series in part.series if series.label == comparison.variant)
            bad = _is_worse(part, comparison)
            verdict = mail(words.verdict(part, comparison, report.margin))
            skip = "" if comparison.verdict in _VERDICTS or comparison is part.control else f" # SKIP {verdict}"
            inner += [_diagnostic(series, part), f"# verdict: {verdict}"]
            inner.append(f"{'not ok' if bad else 'ok'} {count} {_test_name(comparison.variant)}{skip}")
            failed |= bad
        for count, label in enumerate(_without_boots(report, part), len(part.comparisons) + 1):
            inner.append(f"ok {count} {_test_name(label)} # SKIP no boot counts")
        lines += [f"  {line}" for line in inner]
        judged = any(c.verdict in _VERDICTS for c in part.comparisons if c is not part.control)
        skip = "" if judged else " # SKIP no verdict"
        lines.append(f"{'not ok' if failed else 'ok'} {number} {_test_name(part.workload.name)}{skip}")
    return "\n".join([*lines, *of_boots]) + "\n"


def _boots(report: Report, number: int) -> Iterator[str]:
    """Write the test of all boots, if they are known: a hang or a panic is a failure of the kernel that was booted."""
    counts = losses_of(report.results)
    if not counts:
        return
    inner = ["KTAP version 1", f"1..{len(counts)}"]
    for k, losses in enumerate(counts, 1):
        inner += [f"# {mail(str(losses))}", f"{'not ok' if losses.lost else 'ok'} {k} {_test_name(losses.variant)}"]
    yield from (f"  {line}" for line in inner)
    yield f"{'not ok' if any(losses.lost for losses in counts) else 'ok'} {number} boots"


def _test_name(text: str) -> str:
    """Return the name of a test: a hash sign would begin a directive, and readers drop spaces at the ends."""
    text = printable(text).replace("#", r"\x23")
    inner = text.strip(" ")
    before, after = len(text) - len(text.lstrip(" ")), len(text) - len(text.rstrip(" "))
    return mail(r"\x20" * before + inner + r"\x20" * (after if inner else 0))


def _without_boots(report: Report, part: WorkloadReport) -> list[str]:
    """List the variants of which no boot counts."""
    recorded = [series.label for series in part.series]
    return [variant.label for variant in report.results.campaign.variants if variant.label not in recorded]


def _diagnostic(series: Series, part: WorkloadReport) -> str:
    deviation = float(np.std(series.medians, ddof=1)) if len(series.medians) > 1 else 0.0
    return (
        f"# {mail(series.label)}: value {series.median:.9g}, unit {mail(part.workload.unit)}, "
        f"variance {deviation**2:.6g}, n {len(series.medians)}"
    )


def _is_worse(part: WorkloadReport, comparison: Comparison) -> bool:
    if comparison is part.control or comparison.verdict != "different" or comparison.effect is None:
        return False
    return not comparison.within_margin and faster_or(part.workload, comparison.effect.change) in ("slower", "worse")
