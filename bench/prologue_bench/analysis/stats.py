"""Differences between two kernels, as logarithms of ratios: estimate, interval, p, and what could have been seen.

The unit of replication is the boot: a boot counts once, as the logarithm of the median of its runs. Everything here
works along the last axis, so that one call judges thousands of simulated campaigns: the calibration measures the very
code that judges real ones. Why these: docs/decisions/0007; how they do: docs/evidence/bench.md.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

LEVEL: Final = 0.95  # of every interval
ALPHA: Final = 0.05
POWER: Final = 0.8
LEAST: Final = 6  # pairs: fewer cannot reach p <= 0.05, since 2 / 2^5 = 0.06
SEED: Final = 2019  # of the random sign flips, the same in every report
FLIPS: Final = 9999  # random ones, if there are too many to try all
ALL_FLIPS: Final = 13  # pairs up to which all 2^n are tried
_BATCH: Final = 1 << 19  # numbers flipped at a time: larger arrays get memory that the kernel clears anew
NO_WIDTH: Final = 1e-12  # of an interval: what rounding leaves of equal logarithms
# Standard deviations of a difference that so many pairs see with 80% power. With few pairs the sign flips have coarse
# steps, and the t distribution promises too much; these were found by simulation (test_calibration repeats it).
FEW: Final = {6: 1.80, 7: 1.36, 8: 1.20, 9: 1.10}
_RANKS: Final = (np.pi / 3) ** 0.5  # how much more a difference of normal values must be for ranks to see it

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A difference, or an array of them; all but ``p`` are logarithms of a ratio to the base.

    ``detectable`` is the smallest difference that as much data with this spread calls different in 80% of campaigns.
    """

    centre: Floats
    low: Floats
    high: Floats
    p: Floats
    detectable: Floats

    @property
    def varies(self) -> npt.NDArray[np.bool_]:
        """True if the data have any spread: without it nothing is known of the error, and nothing follows."""
        return np.asarray(self.high - self.low > NO_WIDTH)

    @property
    def different(self) -> npt.NDArray[np.bool_]:
        """True if the test rejects equality *and* the interval leaves it out."""
        return np.asarray(self.varies & (self.p <= ALPHA) & ((self.low > 0) | (self.high < 0)))

    def inside(self, margin: float) -> npt.NDArray[np.bool_]:
        """Return whether the whole interval lies within that relative difference (0.01 is 1%) of the base."""
        return np.asarray(self.varies & (self.low > np.log1p(-margin)) & (self.high < np.log1p(margin)))


def paired(differences: Floats) -> Estimate:
    """Estimate from the differences of pairs of boots, at least two: t interval, p by sign flips."""
    n = differences.shape[-1]
    return _of_mean(differences, flip_p(differences), FEW[n] * n**0.5 if n in FEW else None)


def over_links(effects: Floats) -> Estimate:
    """Estimate from the mean differences of links, at least two: t interval, p by the t test.

    ``detectable`` is not a number for fewer than six links: it would be a guess.
    """
    from scipy import stats

    p = np.asarray(stats.ttest_1samp(effects, 0, axis=-1).pvalue)
    return _of_mean(effects, p, None if effects.shape[-1] >= LEAST else np.nan)


def _of_mean(values: Floats, p: Floats, seen: float | None) -> Estimate:
    """Estimate a mean; ``seen`` are the standard errors of a detectable difference, None for those of the t test."""
    from scipy import stats

    freedom = values.shape[-1] - 1
    centre, error = values.mean(axis=-1), np.asarray(stats.sem(values, axis=-1))
    reach = quantile(1 - ALPHA / 2, freedom)
    half, seen = reach * error, float(reach + quantile(POWER, freedom)) if seen is None else seen
    detectable = np.asarray(seen * as_often(error, freedom))
    return Estimate(centre=centre, low=centre - half, high=centre + half, p=p, detectable=detectable)


def unpaired(base: Floats, other: Floats) -> Estimate:
    """Estimate from independent boots (or runs), at least two of each: Welch's t interval, Mann-Whitney's p."""
    from scipy import stats

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of samples without any spread, which ``varies`` reports
        welch = stats.ttest_ind(other, base, axis=-1, equal_var=False)
    interval, freedom = welch.confidence_interval(LEVEL), np.asarray(welch.df)
    reach = quantile(1 - ALPHA / 2, freedom)
    error = (interval.high - interval.low) / 2 / reach
    p = np.asarray(stats.mannwhitneyu(base, other, axis=-1).pvalue)
    return Estimate(
        centre=other.mean(axis=-1) - base.mean(axis=-1),
        low=np.asarray(interval.low),
        high=np.asarray(interval.high),
        p=np.nan_to_num(p, nan=1.0),
        detectable=_RANKS * (reach + quantile(POWER, freedom)) * as_often(error, freedom),
    )


def as_often(error: Floats, freedom: int | Floats) -> Floats:
    """Return the error that is above and below the true one equally often; from few boots it is mostly below."""
    from scipy import stats

    return np.asarray(error * np.sqrt(freedom / stats.chi2.ppf(0.5, freedom)))


def quantile(probability: float, freedom: int | Floats) -> Floats:
    """Return a quantile of Student's t."""
    from scipy import stats

    return np.asarray(stats.t.ppf(probability, freedom), dtype=np.float64)


def flip_p(differences: Floats) -> Floats:
    """Return the two-sided p of the mean under exchange of the kernels of any pair.

    Exact up to 13 pairs; then from 9999 random flips with a fixed seed, counting the campaign itself as one of them.
    """
    from scipy import stats

    test = stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", vectorized=True, axis=-1,
        n_resamples=FLIPS, batch=max(_BATCH // differences.size, 1), rng=SEED,
    )  # fmt: skip
    return np.asarray(test.pvalue)


def outliers(values: Floats) -> npt.NDArray[np.bool_]:
    """Return which values lie more than 1.5 interquartile ranges outside the quartiles (Tukey's fences)."""
    low, high = np.quantile(values, (0.25, 0.75))
    reach = 1.5 * (high - low)
    return np.asarray((values < low - reach) | (values > high + reach))


def median_error(values: Floats) -> float:
    """Estimate the standard error of the median of independent values as if normal; for rounding only."""
    from scipy import stats

    return float(1.2533 * stats.sem(values)) if len(values) > 1 else 0.0
