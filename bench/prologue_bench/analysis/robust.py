"""A second estimate that rare outlying boots cannot move: Hodges and Lehmann's, with the interval of signed ranks.

It stands beside the mean where outliers make the mean's interval. The verdict stays that of the mean, which was fixed
beforehand: of two tests one could choose the one that pleases.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

from prologue_bench.analysis.stats import ALPHA, LEAST, Estimate, Floats, outliers, paired

_MUCH: Final = 0.8  # of the mean's interval: narrower than that, ranks have more to say
_EXACT: Final = 60  # pairs up to which the distribution of the rank sum is computed, not approximated


def signed_ranks(differences: Floats) -> Estimate:
    """Estimate from the differences of pairs, along the last axis: the median of all means of two, p by signed ranks.

    The interval is made of the same ranks (Hollander and Wolfe, Nonparametric Statistical Methods, 3.2 and 3.3).
    """
    from scipy import stats

    n = differences.shape[-1]
    first, second = np.triu_indices(n)
    means = np.sort((differences[..., first] + differences[..., second]) / 2, axis=-1)
    cut = _rank_sum_quantile(n)
    p = np.asarray(stats.wilcoxon(differences, axis=-1).pvalue)
    return Estimate(
        centre=np.median(means, axis=-1),
        low=means[..., cut],
        high=means[..., -1 - cut],
        p=np.nan_to_num(p, nan=1.0),
        detectable=np.full(differences.shape[:-1], np.nan),
    )


@cache
def _rank_sum_quantile(n: int) -> int:
    """Return how many of the means are left out at each end of the interval."""
    if n > _EXACT:
        from scipy import stats

        middle, deviation = n * (n + 1) / 4, (n * (n + 1) * (2 * n + 1) / 24) ** 0.5
        return int(middle - float(stats.norm.ppf(1 - ALPHA / 2)) * deviation)
    ways = np.ones(1)
    for rank in range(1, n + 1):  # each rank counts or does not
        longer = np.zeros(len(ways) + rank)
        longer[: len(ways)] += ways
        longer[rank:] += ways
        ways = longer
    return max(int(np.searchsorted(np.cumsum(ways) / 2.0**n, ALPHA / 2, side="right")) - 1, 0)


def beside_the_mean(differences: Floats) -> Estimate | None:
    """Return the second estimate of pairs if outlying ones make the mean's interval; None if they do not.

    They do if some lie outside of Tukey's fences and the interval of ranks is much narrower.
    """
    if len(differences) < LEAST or not outliers(differences).any():
        return None
    robust, mean = signed_ranks(differences), paired(differences)
    narrower = (robust.high - robust.low) < _MUCH * (mean.high - mean.low)
    return robust if bool(narrower & robust.varies) else None
