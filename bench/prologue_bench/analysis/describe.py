"""Describes measurements without any comparison: quartiles, extremes and flagged outliers of every variant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from prologue_bench.analysis.series import series_of
from prologue_bench.analysis.stats import outliers
from prologue_bench.errors import BenchError
from prologue_bench.results.model import ResultSet, Workload

OUTLIER_RULE: Final = "more than 1.5 interquartile ranges outside the quartiles (Tukey)"


@dataclass(frozen=True, slots=True)
class Outlier:
    """A flagged run; ``boot`` is None if boots are not known."""

    value: float
    boot: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A variant of one workload; numbers in the workload's unit, over all runs. ``boots`` is None if not known.

    ``boot_median`` is the median of the boots' medians, as comparisons have it.
    """

    variant: str
    boots: int | None
    runs: int
    minimum: float
    low_quartile: float
    median: float
    boot_median: float
    high_quartile: float
    maximum: float
    error: float  # standard error of the median, for rounding; exact counts have none, though links differ
    outliers: tuple[Outlier, ...]


def describe(results: ResultSet) -> tuple[tuple[Workload, tuple[Description, ...]], ...]:
    """Describe every variant that has a valid boot, of every workload.

    Raises:
        BenchError: there is no valid boot at all.

    """
    labels = [variant.label for variant in results.campaign.variants if results.valid(variant.label)]
    if not labels:
        raise BenchError("no valid boot in these results")
    return tuple(
        (workload, tuple(_describe(results, workload.name, label) for label in labels))
        for workload in results.campaign.workloads
    )


def _describe(results: ResultSet, workload: str, label: str) -> Description:
    series = series_of(results, workload, label)
    values = series.pooled
    numbers = np.repeat([boot.number for boot in series.boots], [len(runs) for runs in series.runs])
    low, q1, median, q3, high = (float(value) for value in np.quantile(values, (0, 0.25, 0.5, 0.75, 1)))
    flagged = tuple(
        Outlier(float(values[k]), int(numbers[k]) if results.boots_known else None)
        for k in np.flatnonzero(outliers(values))
    )
    boots = len(series.boots) if results.boots_known else None
    return Description(
        variant=label,
        boots=boots,
        runs=len(values),
        minimum=low,
        low_quartile=q1,
        median=median,
        boot_median=series.median,
        high_quartile=q3,
        maximum=high,
        error=0.0 if results.campaign.evidence == "exact" else series.error,
        outliers=flagged,
    )
