"""Sentences of a report over several boards, or several links: each by itself, and what all of them show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prologue.words import counted
from prologue_bench.analysis.boards import LEAST_OF_BOARD, Boards, GroupEffect, known_to
from prologue_bench.analysis.compare import Comparison, WorkloadReport, faster_or
from prologue_bench.analysis.layouts import LayoutEffects
from prologue_bench.report.rounding import rounded
from prologue_bench.results.model import ResultSet

MANY = 6  # boards, from which on nothing needs to be said of their number


def boards_used(results: ResultSet) -> str | None:
    """Write ``2 boards: a (12 boots), b (6 boots); each block on one of them``; None if there is one board for all."""
    if not results.boards:
        return None
    boots = Counter(boot.board for boot in results.boots if boot.void is None)
    named = ", ".join(f"{board} ({boots[board]} boot{'s' if boots[board] > 1 else ''})" for board in results.boards)
    several = len(results.boards) > 1
    return f"{len(results.boards)} boards: {named}; each block on one of them" if several else f"board: {named}"


def board_sentences(report: WorkloadReport) -> Iterator[str]:
    """Write every comparison board by board, then the combination; nothing if there is one board for all."""
    effects = [(comparison.variant, comparison.boards) for comparison in report.comparisons if comparison.boards]
    for variant, boards in effects:
        yield f"{variant}, board by board: {', '.join(map(_part, boards.parts))}"
    for variant, boards in effects:
        if left := [part.name for part in boards.parts if part.name not in boards.used]:
            yield f"{variant}: left out: {', '.join(left)}: a board needs {LEAST_OF_BOARD} pairs, to know its spread"
        if len(boards.used) == 1:
            yield f"{variant}: the effect of the board CANNOT BE ESTIMATED: only {boards.used[0]} has enough pairs"
        elif boards.used and boards.spread is None:
            yield f"{variant}: the effect of the board CANNOT BE ESTIMATED: samples of no board vary"
    estimated = [(variant, boards) for variant, boards in effects if boards.spread is not None]
    if estimated:
        yield _random_effect(max((boards for _, boards in estimated), key=lambda boards: boards.freedom))
        yield from (_spread_of_boards(variant, boards) for variant, boards in estimated)


def _part(part: GroupEffect) -> str:
    pairs = counted(part.units, "pair")
    if part.low is None or part.high is None or part.high <= part.low:
        return f"{part.name} {rounded(100 * (part.ratio - 1), 0, sign=True)}% ({pairs})"
    error = 50 * (part.high - part.low)
    middle, low, high = (rounded(100 * (ratio - 1), error, sign=True) for ratio in (part.ratio, part.low, part.high))
    return f"{part.name} {middle}% [{low}, {high}] ({pairs})"


def _random_effect(boards: Boards) -> str:
    """Say what the numbers of the table mean, and what so few boards cannot say."""
    count, freedom = len(boards.used), boards.freedom
    sentence = (
        f"the board is a random effect: changes, intervals and p are of all boards of which these {count} are a sample "
        f"(Paule-Mandel; Hartung-Knapp interval, t with {freedom} degree{'s' if freedom > 1 else ''} of freedom), "
        "whose pairs are taken to be equally noisy"
    )
    if count >= MANY:
        return sentence
    return (
        f"{sentence}. {count} boards are few, and the interval is wide for that reason; if boards differ, only more "
        "boards make it narrower. Nothing here shows that these boards are typical"
    )


def _spread_of_boards(variant: str, boards: Boards) -> str:
    low, high = known_to(boards.freedom)
    factors = f"{low:.2g} to {high:.2g}"
    known = f"{len(boards.used)} boards know a spread at best to a factor of {factors}, if boots had no noise"
    if not boards.spread:
        return f"{variant}: boards differ no more than their boots explain; {known}. That does not prove them alike"
    return f"{variant}: spread between boards {_percent(boards.spread)} (standard deviation); {known}"


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
    yield from (_spread_of_layouts(comparison.variant, layouts) for comparison, layouts in effects)
    if report.base_spread is not None:
        yield f"the base itself differs between layouts by {_percent(report.base_spread)} (standard deviation)"
    for comparison, layouts in effects:
        if comparison is not report.control and (count := layouts.to_decide(margin)) is not None:
            limit = f"{100 * margin:.12g}%"
            yield (
                f"{comparison.variant}: {count} such links decide a margin of {limit}: 80% of campaigns call no "
                f"difference equivalent, and one of {limit} different"
            )


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


def _spread_of_layouts(variant: str, layouts: LayoutEffects) -> str:
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
