"""The order in which boots were made: whether variants were separated in time, and what changed in the course of it.

A machine that gets slower in the course of a day makes the variant of the afternoon look slow. Blocks keep variants
together; boots that were recorded one at a time are in whatever order their user chose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import comb
from typing import Final

import numpy as np

from prologue_bench.analysis.series import Series, log_medians
from prologue_bench.analysis.stats import ALPHA, Floats
from prologue_bench.results.model import Boot

_BY_CHANCE: Final = 0.01  # so seldom has a random order so few changes, or one variant so late
_LEAST_GAP: Final = 5  # seconds between two boots: clocks that say less, mostly, are not set when a board boots
_LEAST_BOOTS: Final = 6  # of which a trend can be told


@dataclass(frozen=True, slots=True)
class Trend:
    """Change of a workload from the first boot to the last, relative, whatever the variant; p by Kendall's tau."""

    change: float
    p: float

    @property
    def is_clear(self) -> bool:
        """True if chance alone seldom makes such a trend."""
        return self.p <= ALPHA


def in_order(boots: Sequence[Boot]) -> list[int]:
    """Return the places of boots in the order of time: by their clocks, or that of the file if those are not set."""
    try:
        times = np.array([datetime.fromisoformat(boot.started).timestamp() for boot in boots])
    except (ValueError, OSError, OverflowError):
        times = np.zeros(len(boots))
    if len(boots) < 2 or np.median(np.diff(np.sort(times))) < _LEAST_GAP:
        return list(range(len(boots)))
    return [int(place) for place in np.argsort(times, kind="stable")]


def separated(base: Series, other: Series) -> str | None:
    """Say how two variants without blocks were separated in time; None if they alternated.

    Two tests: how often neighbours in time are of different variants (Wald and Wolfowitz), and whether one variant came
    late (Mann and Whitney).
    """
    from scipy import stats

    boots = sorted((*base.boots, *other.boots), key=lambda boot: boot.position)
    if not all(boot.started for boot in boots):
        return None  # of other programs, or a table made by hand
    late = np.array([boots[k].variant == other.label for k in in_order(boots)])
    changes = int(np.count_nonzero(np.diff(late)))
    places = np.arange(len(late))
    p = float(stats.mannwhitneyu(places[late], places[~late], method="asymptotic").pvalue)
    if min(p, _seldom(changes + 1, int(late.sum()), int((~late).sum()))) > _BY_CHANCE:
        return None
    expected = 2 * late.mean() * (~late).sum()
    return (
        f"{base.label} and {other.label} were separated in time: their {len(late)} boots changed from one to the other "
        f"{changes} time{'s' * (changes != 1)}, where a random order has some {expected:.0f}"
    )


def _seldom(runs: int, first: int, second: int) -> float:
    """Return how often a random order of so many of two kinds has as few runs of one kind."""
    ways = 0
    for count in range(2, runs + 1):
        half, odd = divmod(count, 2)
        if odd:
            ways += comb(first - 1, half) * comb(second - 1, half - 1) + comb(first - 1, half - 1) * comb(
                second - 1, half
            )
        else:
            ways += 2 * comb(first - 1, half - 1) * comb(second - 1, half - 1)
    return ways / comb(first + second, first)


def trend_of(series: Sequence[Series], workload: str) -> Trend | None:
    """Estimate how a workload changed in the course of a campaign; None if too few boots or no spread tell of it."""
    from scipy import stats

    boots = [boot for part in series for boot in part.boots]
    if not series or not series[0].boots_known or len(boots) < _LEAST_BOOTS or not all(b.started for b in boots):
        return None
    if any(not np.all(part.medians > 0) for part in series):
        return None
    # By variant and link: they differ for other reasons.
    values = np.concatenate([_without_group_means(part, workload) for part in series])
    rows = sorted(range(len(boots)), key=lambda row: boots[row].number)
    rows = [rows[k] for k in in_order([boots[row] for row in rows])]
    places, ordered = np.arange(len(rows)), values[rows]
    if not np.ptp(ordered):
        return None
    slope = float(stats.linregress(places, ordered).slope)
    return Trend(float(np.expm1(slope * (len(rows) - 1))), float(stats.kendalltau(places, ordered).pvalue))


def _without_group_means(series: Series, workload: str) -> Floats:
    values = log_medians(series, workload)
    groups = np.array([f"{boot.link}/{boot.board}" for boot in series.boots])
    for group in np.unique(groups):
        values[groups == group] -= values[groups == group].mean()
    return values
