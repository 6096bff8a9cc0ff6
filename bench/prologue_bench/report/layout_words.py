"""Sentences of a report over several links: each by itself, how far they are apart, and how many would decide."""

from __future__ import annotations

from collections.abc import Iterator

from prologue.words import counted
from prologue_bench.analysis.boards import known_to
from prologue_bench.analysis.compare import Comparison, WorkloadReport, faster_or
from prologue_bench.analysis.layouts import LayoutEffect, LayoutEffects
from prologue_bench.report.rounding import rounded


def layout_sentences(report: WorkloadReport, margin: float) -> Iterator[str]:
    """Write every comparison link by link, then what holds over layouts; nothing if there is one link."""
    effects = [(comparison, comparison.layouts) for comparison in report.comparisons if comparison.layouts]
    if not effects:
        return
    for comparison, layouts in effects:
        yield f"{comparison.variant}, link by link: {', '.join(map(_part, layouts.parts))}"
    for comparison, layouts in effects:
        if comparison is not report.control and (sentence := _alone(report, comparison, layouts)):
            yield sentence
    _, layouts = effects[0]
    freedom = layouts.freedom
    yield (
        f"the layout is a random effect: changes, intervals and p are of all layouts of which these {freedom + 1} "
        f"links are a sample (each link counts once; t with {counted(freedom, 'degree')} of freedom)"
    )
    yield from (_spread(comparison.variant, layouts) for comparison, layouts in effects)
    if report.base_spread is not None:
        yield f"the base itself differs between layouts by {_percent(report.base_spread)} (standard deviation)"
    for comparison, layouts in effects:
        if comparison is not report.control and (count := layouts.to_decide(margin)) is not None:
            limit = f"{100 * margin:.12g}%"
            yield (
                f"{comparison.variant}: {count} such links decide a margin of {limit}: 80% of campaigns call no "
                f"difference equivalent, and one of {limit} different"
            )


def _part(part: LayoutEffect) -> str:
    pairs = counted(part.units, "pair")
    if part.low is None or part.high is None or part.high <= part.low:
        return f"{part.link} {rounded(100 * (part.ratio - 1), 0, sign=True)}% ({pairs})"
    error = 50 * (part.high - part.low)
    middle, low, high = (rounded(100 * (ratio - 1), error, sign=True) for ratio in (part.ratio, part.low, part.high))
    return f"{part.link} {middle}% [{low}, {high}] ({pairs})"


def _alone(report: WorkloadReport, comparison: Comparison, layouts: LayoutEffects) -> str | None:
    """Say what plain comparisons of single links would have said; None if links have too few pairs for a verdict."""
    judged = [part for part in layouts.parts if part.different is not None]
    if not judged or comparison.effect is None:
        return None
    words = [faster_or(report.workload, part.ratio - 1) for part in judged if part.different]
    named = [f"{words.count(word)} {word}" for word in dict.fromkeys(words)]
    named.append(f"{len(judged) - len(words)} not different")
    ratio = comparison.effect.ratio
    without = sum(part.low is not None and not part.low <= ratio <= (part.high or 0) for part in judged)
    return (
        f"{comparison.variant}, from one link alone: {', '.join(named)}; the intervals of {without} of "
        f"{counted(len(judged), 'link')} leave out the change over layouts"
    )


def _spread(variant: str, layouts: LayoutEffects) -> str:
    if layouts.spread is None:
        single = any(part.units < 2 for part in layouts.parts)
        why = "a link needs 2 pairs" if single else "pairs of one link do not vary"
        return f"{variant}: the spread between layouts CANNOT BE SEPARATED from the noise of boots ({why})"
    if not layouts.spread:
        return f"{variant}: links differ no more than their boots explain"
    low, high = known_to(layouts.freedom)
    known = f"so many links know a spread at best to a factor of {low:.2g} to {high:.2g}"
    return f"{variant}: spread between layouts {_percent(layouts.spread)} (standard deviation); {known}"


def _percent(relative: float) -> str:
    return f"{float(f'{100 * relative:.2g}'):g}%"
