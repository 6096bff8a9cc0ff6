"""Sentences of a report over several boards: each by itself, and what so few of them can and cannot show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prologue_bench.analysis.boards import LEAST_OF_BOARD, BoardEffect, Boards
from prologue_bench.analysis.compare import WorkloadReport
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
        if left := [part.board for part in boards.parts if part.board not in boards.used]:
            yield f"{variant}: left out: {', '.join(left)}: a board needs {LEAST_OF_BOARD} pairs, to know its spread"
        if len(boards.used) == 1:
            yield f"{variant}: the effect of the board CANNOT BE ESTIMATED: only {boards.used[0]} has enough pairs"
        elif boards.used and boards.spread is None:
            yield f"{variant}: the effect of the board CANNOT BE ESTIMATED: samples of no board vary"
    estimated = [(variant, boards) for variant, boards in effects if boards.spread is not None]
    if estimated:
        yield _random_effect(max((boards for _, boards in estimated), key=lambda boards: boards.freedom))
        yield from (_spread(variant, boards) for variant, boards in estimated)


def _part(part: BoardEffect) -> str:
    pairs = f"{part.units} pair{'s' if part.units > 1 else ''}"
    if part.low is None or part.high is None or part.high <= part.low:
        return f"{part.board} {rounded(100 * (part.ratio - 1), 0, sign=True)}% ({pairs})"
    error = 50 * (part.high - part.low)
    middle, low, high = (rounded(100 * (ratio - 1), error, sign=True) for ratio in (part.ratio, part.low, part.high))
    return f"{part.board} {middle}% [{low}, {high}] ({pairs})"


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


def _spread(variant: str, boards: Boards) -> str:
    low, high = boards.known_to
    factors = f"{low:.2g} to {high:.2g}"
    known = f"{len(boards.used)} boards know a spread at best to a factor of {factors}, if boots had no noise"
    if not boards.spread:
        return f"{variant}: boards differ no more than their boots explain; {known}. That does not prove them alike"
    return f"{variant}: spread between boards {float(f'{100 * boards.spread:.2g}'):g}% (standard deviation); {known}"
