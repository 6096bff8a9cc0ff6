"""Draws verdicts from a result set: what may be said of every variant against the base, and what may not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import numpy as np

from prologue.words import counted
from prologue_bench.analysis.boards import Boards, over_boards
from prologue_bench.analysis.counters import with_counters
from prologue_bench.analysis.layouts import LayoutEffects, over_layouts, spread_between
from prologue_bench.analysis.order import Trend, trend_of
from prologue_bench.analysis.robust import beside_the_mean
from prologue_bench.analysis.series import Series, by_link, log_medians, paired_differences, series_of
from prologue_bench.analysis.stats import LEAST, Estimate, Floats, paired, unpaired
from prologue_bench.analysis.withheld import first_lines, separated_pairs, why_withheld
from prologue_bench.errors import BenchError
from prologue_bench.results.model import ResultSet, Workload

MARGIN: Final = 0.01
NO_LINK: Final = "no link has boots of it and of the base"
_EXACT_LIMIT: Final = 2**53  # a JSON reader's whole numbers

ComparisonVerdict = Literal["different", "equivalent", "inconclusive", "too few boots", "none"]
Test = Literal["sign flips", "Mann-Whitney", "random effect", "signed ranks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A difference from the base as a ratio, with the interval's ends.

    ``detectable`` is relative (0.01 is 1%); None if there are too few boots to detect anything, however large; over
    several boards, for which it is not computed; or if samples do not vary: then the interval has no width and means
    nothing.
    """

    ratio: float
    low: float
    high: float
    p: float
    detectable: float | None
    test: Test
    different: bool

    @property
    def change(self) -> float:
        """Relative difference: -0.01 is 1% less."""
        return self.ratio - 1

    @property
    def varies(self) -> bool:
        """True if the interval has a width."""
        return self.high > self.low

    @property
    def error(self) -> float:
        """Half the width of the interval; for rounding."""
        return (self.high - self.low) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A variant against the base.

    ``units`` is how many pairs of boots there are or, unpaired, boots (or runs) of the variant that has fewer.
    ``reason`` is why there is no better verdict. If ``exact``, counts were compared and no statistics made:
    ``difference`` is that of the counts, None if several links do not agree; ``differences`` are those of each link.
    ``boards`` is what each of several boards says, ``layouts`` each of several links; None if all pairs are of one.
    ``robust`` is a second estimate, which outlying pairs cannot move; None if none make the interval.
    """

    variant: str
    units: int
    verdict: ComparisonVerdict
    effect: Effect | None = None
    within_margin: bool = False
    reason: str | None = None
    exact: bool = False
    difference: int | None = None
    differences: Mapping[str, int] = field(default_factory=dict)
    boards: Boards | None = None
    layouts: LayoutEffects | None = None
    robust: Effect | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadReport:
    """All variants of one workload, the base first; comparisons in the same order, without the base.

    ``base_spread`` is the standard deviation of the base between layouts, relative; None if there is one link.
    ``trend`` is what changed in the course of the campaign; None if too few boots tell of it.
    """

    workload: Workload
    series: tuple[Series, ...]
    comparisons: tuple[Comparison, ...] = ()
    control: Comparison | None = None  # the A/A comparison, one of those
    base_spread: float | None = None
    trend: Trend | None = None

    @property
    def floor(self) -> float | None:
        """|difference| of the A/A control, relative."""
        effect = None if self.control is None else self.control.effect
        return None if effect is None else abs(effect.change)


@dataclass(frozen=True, slots=True)
class Report:
    """Content of a report, in any format; ``first_lines`` stand above everything else."""

    results: ResultSet
    margin: float
    workloads: tuple[WorkloadReport, ...]
    first_lines: tuple[str, ...] = ()


def compare(results: ResultSet, margin: float = MARGIN) -> Report:
    """Compare every variant with the base, by each workload and by each counter that was read in its runs.

    Args:
        results: what was recorded.
        margin: relative difference below which two kernels count as equivalent (0.01 is 1%).

    Raises:
        BenchError: nothing to compare, or exact counts that are not exact.

    """
    results = with_counters(results)
    workloads = tuple(_report(results, workload, margin) for workload in results.campaign.workloads)
    return Report(results, margin, workloads, first_lines(results, workloads[0].series))


def _report(results: ResultSet, workload: Workload, margin: float) -> WorkloadReport:
    campaign = results.campaign
    labels = sorted((variant.label for variant in campaign.variants), key=lambda label: label != campaign.base)
    everything = [series_of(results, workload.name, label) for label in labels]
    base, *others = everything
    if not base.boots:
        raise BenchError(f"{workload.name}: no valid boot of the base {base.label!r}: nothing to compare with")
    recorded = tuple(series for series in everything if series.boots)
    others = [series for series in others if series.boots]
    if campaign.evidence == "smoke":
        return WorkloadReport(workload=workload, series=recorded)
    if campaign.evidence == "exact":
        comparisons = tuple(_exact(base, series, workload) for series in others)
        return WorkloadReport(workload=workload, series=recorded, comparisons=comparisons)
    compared = tuple(_comparison(base, series, workload, margin) for series in others)
    control = next((c for c in compared if c.variant == campaign.aa), None)
    if campaign.aa is not None:
        compared = tuple(c if c is control else _limited_by_control(c, control) for c in compared)
    reasons = separated_pairs(recorded) | why_withheld(results)
    compared = tuple(
        replace(c, verdict="none", reason=reasons[c.variant]) if c is not control and c.variant in reasons else c
        for c in compared
    )
    links = [log_medians(part, workload.name) for part in by_link(base).values()]
    return WorkloadReport(
        workload=workload, series=recorded, comparisons=compared, control=control,
        base_spread=spread_between(links) if len(links) > 1 else None, trend=trend_of(recorded, workload.name),
    )  # fmt: skip


def _exact(base: Series, series: Series, workload: Workload) -> Comparison:
    """Compare counts, link by link."""
    counts, bases = ({link: exact_value(part, workload) for link, part in by_link(s).items()} for s in (series, base))
    differences = {link: count - bases[link] for link, count in counts.items() if link in bases}
    values = {*differences.values()}
    return Comparison(
        variant=series.label,
        units=len(series.boots),
        verdict="none",
        reason=None if values else NO_LINK,
        exact=True,
        difference=values.pop() if len(values) == 1 else None,
        differences=differences if len(differences) > 1 else {},
    )


def exact_value(series: Series, workload: Workload) -> int:
    """Return the count of an exact series.

    Raises:
        BenchError: it was not counted twice, its counts differ, or they are no whole numbers.

    """
    values = series.pooled
    where = f"{workload.name}: {series.label}"
    if len(values) < 2:
        raise BenchError(f"{where}: exact evidence is counted at least twice, this was counted once")
    if values.min() != values.max():
        raise BenchError(
            f"{where}: runs differ ({values.min():.12g} and {values.max():.12g}): this is not exact evidence"
        )
    if values[0] != math.floor(values[0]) or values[0] >= _EXACT_LIMIT:
        raise BenchError(f"{where}: {values[0]:.12g} is not a count")
    return int(values[0])


def _comparison(base: Series, series: Series, workload: Workload, margin: float) -> Comparison:
    in_blocks = base.in_blocks and series.in_blocks
    estimated = (_paired if in_blocks else _unpaired)(base, series, workload)
    groups, estimate, test, units = estimated
    boards = groups if isinstance(groups, Boards) else None
    layouts = groups if isinstance(groups, LayoutEffects) else None
    if estimate is None:
        too_few = _too_few(units, base, series)
        if units and _of_several_links(base, series):
            too_few = f"{counted(units, 'pair')} of boots, all of one link; an effect over layouts needs two links"
        return Comparison(variant=series.label, units=units, verdict="too few boots", reason=too_few, boards=boards)
    effect = _effect(estimate, units, test)
    inside = bool(estimate.inside(margin))
    verdict: ComparisonVerdict = "inconclusive"
    reason = None
    if units < LEAST:
        verdict, reason = "too few boots", _too_few(units, base, series)
    elif not effect.varies:
        reason = "samples do not vary: the clock or the number is too coarse"
    elif effect.different:
        verdict = "different"
    elif inside:
        verdict = "equivalent"
    return Comparison(
        variant=series.label, units=units, verdict=verdict, effect=effect, within_margin=inside, reason=reason,
        boards=boards, layouts=layouts, robust=_robust(base, series, workload) if test == "sign flips" else None,
    )  # fmt: skip


def _robust(base: Series, series: Series, workload: Workload) -> Effect | None:
    by_board = paired_differences(base, series, workload.name)
    differences = np.concatenate([*by_board.values(), np.empty(0)])
    estimate = beside_the_mean(differences) if len(by_board) == 1 else None
    return None if estimate is None else _effect(estimate, len(differences), "signed ranks")


_Estimated = tuple[
    Boards | LayoutEffects | None, Estimate | None, Test, int
]  # the last: how many pairs, or boots, or runs


def _paired(base: Series, series: Series, workload: Workload) -> _Estimated:
    """Return the estimate from pairs; None if there are too few of them."""
    if _of_several_links(base, series):
        return _over_links(by_link(base), by_link(series), workload)
    by_board = paired_differences(base, series, workload.name)
    if by_board and len({boot.board for boot in (*base.boots, *series.boots)}) > 1:
        estimate, boards = over_boards({board or "(not named)": values for board, values in by_board.items()})
        units = sum(part.units for part in boards.parts if part.name in boards.used)
        return boards, estimate, "random effect" if len(boards.used) > 1 else "sign flips", units
    differences = np.concatenate([*by_board.values(), np.empty(0)])
    return None, paired(differences) if len(differences) > 1 else None, "sign flips", len(differences)


def _of_several_links(base: Series, series: Series) -> bool:
    return len(by_link(base).keys() | by_link(series).keys()) > 1


def _over_links(base: Mapping[str, Series], series: Mapping[str, Series], workload: Workload) -> _Estimated:
    """Return the estimate from pairs of several links.

    Raises:
        BenchError: they are of several boards as well.

    """
    pairs: dict[tuple[str, str | None], Floats] = {}
    for link in (link for link in base if link in series):
        by_board = paired_differences(base[link], series[link], workload.name)
        pairs |= {(link, board): values for board, values in by_board.items()}
    if len({board for _, board in pairs}) > 1:
        raise BenchError("several links on several boards: compare the results of each board by themselves")
    units = sum(len(values) for values in pairs.values())
    if len(pairs) < 2:
        return None, None, "random effect", units
    estimate, layouts = over_layouts({link: values for (link, _), values in pairs.items()})
    return layouts, estimate, "random effect", units


def _unpaired(base: Series, series: Series, workload: Workload) -> _Estimated:
    """Return the estimate from boots that are no pairs; None if there are too few of them."""
    units = min(len(base.medians), len(series.medians))
    ours, theirs = log_medians(series, workload.name), log_medians(base, workload.name)
    return None, unpaired(theirs, ours) if units > 1 else None, "Mann-Whitney", units


def _effect(estimate: Estimate, units: int, test: Test) -> Effect:
    ratio, low, high = (float(np.exp(value)) for value in (estimate.centre, estimate.low, estimate.high))
    if not estimate.varies:
        return Effect(
            ratio=ratio, low=ratio, high=ratio, p=float(estimate.p), detectable=None, test=test, different=False
        )
    known = units >= LEAST and not np.isnan(estimate.detectable)
    detectable = float(np.expm1(estimate.detectable)) if known else None
    return Effect(
        ratio=ratio,
        low=low,
        high=high,
        p=float(estimate.p),
        detectable=detectable,
        test=test,
        different=bool(estimate.different),
    )


def _too_few(units: int, base: Series, series: Series) -> str:
    in_blocks = base.in_blocks and series.in_blocks
    noun, of = ("pair", "of boots") if in_blocks else ("boot" if base.boots_known else "run", "of each")
    return f"{counted(units, noun)} {of}; a verdict needs at least {LEAST}"


def _limited_by_control(comparison: Comparison, control: Comparison | None) -> Comparison:
    """Return the comparison with the part of its verdict that the A/A control leaves."""
    if comparison.verdict == "too few boots" or (comparison.effect and not comparison.effect.varies):
        return comparison
    if control is None or control.effect is None or control.verdict == "too few boots":
        return replace(comparison, verdict="none", reason="the A/A control has too few boots")
    if control.verdict == "different":
        return replace(comparison, verdict="none", reason="the A/A control came out different")
    if not control.effect.varies:
        return replace(comparison, verdict="none", reason="samples of the A/A control do not vary")
    effect = comparison.effect
    if comparison.verdict == "different" and effect and abs(effect.change) <= abs(control.effect.change):
        if comparison.within_margin:
            return replace(comparison, verdict="equivalent")
        reason = "no larger than the difference of the A/A control"
        return replace(comparison, verdict="inconclusive", reason=reason)
    return comparison


def faster_or(workload: Workload, change: float) -> str:
    """Name a change (relative, not 0): ``faster`` or ``slower`` for times and rates, otherwise better or worse.

    The sign cannot mislead then: less time and more messages per second are both ``faster``.
    """
    better = (change < 0) == (workload.direction == "lower")
    timed = workload.unit.lower() in _TIMES or workload.unit.lower().endswith(("/s", "per second", "/sec"))
    return ("faster" if better else "slower") if timed else ("better" if better else "worse")


_TIMES: Final = frozenset(
    ("s", "sec", "second", "seconds", "ms", "millisecond", "milliseconds", "us", "usec", "microsecond", "microseconds",
     "ns", "nsec", "nanosecond", "nanoseconds", "min", "minute", "minutes")
)  # fmt: skip


def comparisons_with_verdict(workloads: Sequence[WorkloadReport]) -> int:
    """Count the tests that could have said different: each has its own chance of a false alarm."""
    compared = (c for report in workloads for c in report.comparisons if c is not report.control)
    return sum(c.effect is not None and c.effect.varies and c.verdict != "too few boots" for c in compared)
