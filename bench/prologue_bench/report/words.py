"""Sentences of a report: verdicts, and everything a reader must know to judge them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from prologue.words import counted
from prologue_bench.analysis.compare import (
    Comparison,
    Effect,
    Report,
    WorkloadReport,
    comparisons_with_verdict,
    faster_or,
)
from prologue_bench.analysis.order import Trend, in_order
from prologue_bench.analysis.stats import ALL_FLIPS, ALPHA, FLIPS, LEAST, SEED, outliers
from prologue_bench.analysis.withheld import unfinished
from prologue_bench.report.rounding import decimals, rounded, rounded_p
from prologue_bench.results.model import Campaign, ResultSet, Workload
from prologue_bench.results.settings import unknown_settings

SMOKE: Final = (
    "no comparison: smoke evidence. QEMU's TCG emits nothing for a NOP and one operation for a MOV, so its wall time "
    "measures the translator, not the kernel: no percentage, no verdict."
)
EXACT: Final = (
    "exact evidence: every count was taken at least twice, and all were equal. NOP and MOV both count 1: counts "
    "show work, not the cost of the MOV. A workload starts at the scheduler clock that the boot before it reached: a "
    "small difference in its count need not come from the variant."
)
OTHER_MACHINE: Final = (
    "no comparison: smoke evidence. The machine is {arch}, where no arm64 prologue runs: no percentage, no verdict."
)
_TWO_TESTS: Final = " (two tests: different needs both)"
_APART: Final = 0.25  # of half an interval: so far may two summaries of the same data be apart without a word
_VOIDS_SHOWN: Final = 3
_HASH_SHOWN: Final = 12
_MILLISECOND: Final = 0.001
_HASH: Final = 24  # hexadecimal text from this length on is a hash


def limits(campaign: Campaign) -> tuple[str, ...]:
    """Say what the evidence class keeps a report from saying."""
    if campaign.evidence == "smoke" and (arch := campaign.machine.get("arch", "aarch64")) != "aarch64":
        return (OTHER_MACHINE.format(arch=arch),)
    return {"smoke": (SMOKE,), "exact": (EXACT,), "timing": ()}[campaign.evidence]


def per_cent(relative: float) -> str:
    """Write a detectable difference, without sign: two digits at most."""
    value = 100 * relative
    return f"{round(value, max(decimals(value), 0)):g}%" if value > 0 else "0%"


def margin_of(relative: float) -> str:
    """Write a margin as it was set: it is a claim, and no measured number."""
    return f"{100 * relative:.12g}%"


def change(effect: Effect) -> str:
    """Write ``-0.87% [-1.46, -0.28]``; without the interval if that has no width."""
    middle, low, high = (_digits(ratio - 1, effect, sign=True) for ratio in (effect.ratio, effect.low, effect.high))
    return f"{middle}% [{low}, {high}]" if effect.varies else f"{middle}%"


def size(effect: Effect, workload: Workload) -> str:
    """Write ``0.9% faster``: one digit of the error, direction in words."""
    amount = _digits(abs(effect.change), effect, digits=1)
    return f"{amount}% {faster_or(workload, effect.change)}"


def floor(effect: Effect) -> str:
    """Write |difference| of the A/A control."""
    return _digits(abs(effect.change), effect) + "%"


def _digits(relative: float, effect: Effect, digits: int = 2, *, sign: bool = False) -> str:
    """Write a part of an effect in percent, as many digits as its error allows; three if there is none."""
    value = 100 * relative
    error, digits = (100 * effect.error, digits) if effect.varies else (abs(value), 3)
    return rounded(value, error, digits, sign=sign)


def exact_change(comparison: Comparison) -> str:
    """Write the difference of a count, or the lowest and the highest of several links."""
    if comparison.reason is not None:
        return comparison.reason
    differences = [*comparison.differences.values()] or [comparison.difference or 0]
    return span(differences, "+,") if any(differences) else "equal"


def span(counts: Sequence[float], form: str) -> str:
    """Write a count, or the lowest and the highest of several links."""
    low, high = int(min(counts)), int(max(counts))
    return f"{low:{form}}" if low == high else f"{low:{form}} to {high:{form}}"


def short_verdict(report: WorkloadReport, comparison: Comparison, margin: float) -> str:
    """Write the verdict for the table."""
    effect = comparison.effect
    if comparison is report.control and effect is not None and effect.varies:
        return f"floor {floor(effect)}"
    if comparison.verdict == "different" and effect is not None:
        return size(effect, report.workload)
    return f"within +-{margin_of(margin)}" if comparison.verdict == "equivalent" else comparison.verdict


def verdict(report: WorkloadReport, comparison: Comparison, margin: float) -> str:
    """Write the verdict as a sentence; one that is drawn from one of several boards says so."""
    sentence = _verdict(report, comparison, margin)
    used = () if comparison.boards is None else comparison.boards.used
    return f"{sentence}; for board {used[0]} only" if len(used) == 1 else sentence


def _verdict(report: WorkloadReport, comparison: Comparison, margin: float) -> str:
    effect, name = comparison.effect, comparison.variant
    if effect is None or comparison.verdict == "too few boots":
        return f"{name}: too few boots: {comparison.reason}"
    p = f"p {rounded_p(effect.p)}"
    if not effect.varies:
        return f"{name}: inconclusive: {comparison.reason}"
    if comparison is report.control:
        if comparison.verdict == "different":
            return f"{name}: the base against itself came out different ({p}): no verdict on anything here"
        return f"{name}: the base against itself ({p}), the floor of every difference"
    if comparison.verdict == "different":
        within = f", yet within +-{margin_of(margin)}" if comparison.within_margin else ""
        return f"{name}: different, {size(effect, report.workload)} ({p}){within}"
    if comparison.verdict == "equivalent":
        return f"{name}: equivalent within +-{margin_of(margin)} ({p})"
    if comparison.verdict == "none":
        return f"{name}: no verdict: {comparison.reason}"
    if comparison.reason is not None:
        return f"{name}: inconclusive ({p}): {comparison.reason}"
    if effect.detectable is None:
        return f"{name}: inconclusive ({p}); any value in the interval is possible"
    seen = f"{_units(report, comparison)} could have seen {per_cent(effect.detectable or 0)} or more"
    return f"{name}: inconclusive ({p}); {seen}"


def _units(report: WorkloadReport, comparison: Comparison) -> str:
    if comparison.effect is not None and comparison.effect.test != "Mann-Whitney":
        return f"{counted(comparison.units, 'pair')}{_groups(comparison)}"
    base, *others = report.series
    counts = [len(base.medians), *(len(series.medians) for series in others if series.label == comparison.variant)]
    noun = "boots" if base.boots_known else "runs"
    return f"{counts[0]} {noun} of each" if len(set(counts)) == 1 else f"{counts[0]} and {counts[1]} {noun}"


def _groups(comparison: Comparison) -> str:
    """Write `` on 3 boards`` or `` on 12 links``; nothing if all pairs are of one."""
    if comparison.layouts is not None:
        return f" on {counted(len(comparison.layouts.parts), 'link')}"
    boards = () if comparison.boards is None else comparison.boards.used
    return f" on {counted(len(boards), 'board')}" if len(boards) > 1 else ""


def medians_note(report: WorkloadReport) -> Iterator[str]:
    """Warn if the ratio of the medians in the table is not the change beside it: a reader will divide them."""
    base = report.series[0]
    for series in report.series[1:]:
        effect = next(c.effect for c in report.comparisons if c.variant == series.label)
        paired = effect is not None and effect.test != "Mann-Whitney"
        # Pairs are compared within their blocks, medians not.
        whole = paired and {boot.block for boot in base.boots} == {boot.block for boot in series.boots}
        if effect is None or not effect.varies or whole:
            continue
        plain = series.median / base.median - 1
        if abs(plain - effect.change) > effect.error * _APART:
            noun = "boots" if base.boots_known else "runs"
            mean = f"the mean over all {noun}, outlying ones too"
            yield (
                f"{series.label}: medians alone differ by {rounded(100 * plain, 100 * effect.error, sign=True)}%; "
                f"the change is {'the mean over pairs, and some boots have none' if paired else mean}"
            )


def method(report: WorkloadReport) -> str | None:
    """Say how the numbers were made and what they could have seen; None if nothing was compared."""
    others = [c for c in report.comparisons if c is not report.control] or list(report.comparisons)
    made = [(c, c.effect) for c in others if c.effect is not None]
    if not made:
        return None
    weakest, effect = max(made, key=lambda pair: pair[1].detectable or math.inf)
    if effect.test == "random effect":
        how = f"compared within blocks, then over {'boards' if weakest.layouts is None else 'links'}"
    elif effect.test == "Mann-Whitney":
        how = f"unpaired, Welch's t interval, p by Mann-Whitney{_TWO_TESTS}"
    elif weakest.units <= ALL_FLIPS:
        how = f"compared within blocks, t interval, p by all {2**weakest.units} sign flips{_TWO_TESTS}"
    else:
        how = f"compared within blocks, t interval, p by {FLIPS} random sign flips, seed {SEED}{_TWO_TESTS}"
    seen = "" if effect.detectable is None else f"; can detect {per_cent(effect.detectable)} (80% power)"
    return f"{_units(report, weakest)}; {how}{seen}{_to_see_a_millisecond(report, weakest, effect)}"


def _to_see_a_millisecond(report: WorkloadReport, comparison: Comparison, effect: Effect) -> str:
    """Count the boots, or links, that would see a millisecond, if boots are measured; errors shrink with the root."""
    if report.workload.command != "boot" or report.workload.unit != "seconds" or effect.detectable is None:
        return ""
    detectable = effect.detectable * report.series[0].median
    units, noun = comparison.units, "boots of each variant"
    if comparison.layouts is not None:
        units, noun = len(comparison.layouts.parts), "such links"
    needed = max(LEAST, math.ceil(units * (detectable / _MILLISECOND) ** 2))
    return f"; to see 1 ms takes about {needed:,} {noun}"


def trend(seen: Trend | None) -> Iterator[str]:
    """Say what changed in the course of the campaign; nothing if no trend is clear."""
    if seen is not None and seen.is_clear:
        yield f"in the course of the campaign: {trend_text(seen)}"


def trend_text(seen: Trend) -> str:
    """Write ``+1.0% from the first boot to the last (Kendall's tau, p < 0.0001)``."""
    return f"{100 * seen.change:+.2g}% from the first boot to the last (Kendall's tau, p {rounded_p(seen.p)})"


def robust(report: WorkloadReport) -> Iterator[str]:
    """Write the second estimate of comparisons whose interval is made by outlying pairs; the verdict is the mean's."""
    for comparison in report.comparisons:
        if (effect := comparison.robust) is not None:
            yield (
                f"{comparison.variant}: outlying pairs make the interval of the mean; without their weight "
                f"{change(effect)} (Hodges-Lehmann, signed ranks, p {rounded_p(effect.p)}); the verdict is the mean's"
            )


def flagged(report: WorkloadReport) -> Iterator[str]:
    """Say how many outliers each variant has."""
    counts = ((series.label, int(outliers(series.pooled).sum())) for series in report.series)
    if listed := ", ".join(f"{label} {count}" for label, count in counts if count):
        yield f"outliers (beyond 1.5 IQR), flagged and kept: {listed}"


def design(results: ResultSet) -> str:
    """Say how much there is, in which order it was run."""
    campaign = results.campaign
    series = [results.valid(variant.label) for variant in campaign.variants]
    if not results.boots_known:
        counts = [len(boot.values[campaign.workloads[0].name]) for boots in series for boot in boots]
        return f"{_counted(counts, 'run')} of each variant"
    runs = [len(values) for boots in series for boot in boots for values in boot.values.values()]
    text = f"{_counted([len(boots) for boots in series], 'boot')} of each variant, {_counted(runs, 'run')} in each"
    if any(boot.block is not None for boot in results.boots):
        text += ", in randomised blocks"
    elif all(boot.started for boot in results.boots):
        boots_that_count = [boot for boot in results.boots if boot.void is None]
        order = [boots_that_count[k].variant for k in in_order(boots_that_count)]
        text += f", the next one of another variant {counted(sum(a != b for a, b in pairwise(order)), 'time')}"
    if results.links:
        text += f", over {len(results.links)} links"
    seeds = ", ".join(str(seed) for seed in results.seeds)
    return f"{text}, seed{'s' if len(results.seeds) > 1 else ''} {seeds}" if seeds else text


def _counted(counts: list[int], noun: str) -> str:
    low, high = min(counts, default=0), max(counts, default=0)
    if low == high == 1:
        return f"1 {noun}"
    return f"{low} {noun}s" if low == high else f"{low} to {high} {noun}s"


def caveats(report: Report) -> Iterator[str]:
    """List what weakens the evidence."""
    results, campaign = report.results, report.results.campaign
    if results.voids:
        reasons = [f"{boot.name}, {boot.variant} ({boot.void})" for boot in results.voids[:_VOIDS_SHOWN]]
        more = len(results.voids) - len(reasons)
        yield f"void, left out: {'; '.join(reasons)}{f'; and {more} more' if more else ''}"
    valid = [results.valid(variant.label) for variant in campaign.variants]
    if absent := [variant.label for variant, boots in zip(campaign.variants, valid, strict=True) if not boots]:
        yield f"not compared, since no boot counts: {', '.join(absent)}"
    fewest = min(len(boots) for boots in valid)
    if campaign.boots_planned is not None and fewest < campaign.boots_planned and unfinished(results) is None:
        yield f"{fewest} of {campaign.boots_planned} planned boots count: the others stayed void"
    if campaign.evidence != "timing":
        return
    if not results.boots_known:
        yield "boots are unknown: the interval omits boot-to-boot variation"
    elif bare := sum(boot.readback is None for boots in valid for boot in boots):
        yield f"{bare} boot{'s' if bare > 1 else ''} without read-back: nothing proves which kernel ran there"
    if results.boots_known and not all(boot.started for boots in valid for boot in boots):
        yield "the order of boots is not known: if variants were measured one after the other, drift looks like effect"
    silent = unknown_settings(boot.gate_before for boots in valid for boot in boots)
    if named := ", ".join(f"{setting} (missing in {count})" for setting, count in silent):
        yield f"not recorded for every boot, so they may differ: {named}"
    if campaign.aa is None:
        yield "no A/A control: what the same kernel shows against itself is not known"
    if (tests := comparisons_with_verdict(report.workloads)) > 1:
        yield f"{tests} comparisons, each with a false alarm in {round(1 / ALPHA)}: expect {tests * ALPHA:.2g} of them"


def setup_facts(campaign: Campaign) -> Iterator[str]:
    """Yield machine and kernel, as far as they are known."""
    yield from filter(None, (facts("machine", campaign.machine), facts("kernel", campaign.kernel)))


def facts(title: str, values: Mapping[str, str]) -> str | None:
    """Write ``machine: cpu Cortex-A57, cpus 8``; None if nothing is known."""
    if not values:
        return None
    return f"{title}: " + ", ".join(f"{name} {_shortened(value)}" for name, value in values.items())


def _shortened(value: str) -> str:
    is_hash = len(value) >= _HASH and not set(value.lower()) - set("0123456789abcdef")
    return value[:_HASH_SHOWN] if is_hash else value
