"""A difference that was measured on several links of one build: the layout is a random effect.

The effect of a variant depends on where the linker put its functions, so pairs of one link are no independent evidence
of what the next link would show. Each link counts once, as the mean difference of its pairs; the interval is Student's
t over the links, with one degree of freedom less than there are. With as many pairs on each link this is exact,
however much of the spread is layout and however much is noise (docs/decisions/0032). statsmodels separates the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from prologue_bench.analysis.boards import GroupEffect, combined, effect_alone, variances_of_means, without_width
from prologue_bench.analysis.stats import (
    ALPHA,
    LEAST,
    NO_WIDTH,
    POWER,
    Estimate,
    Floats,
    as_often,
    over_links,
    quantile,
)

_MOST: Final = 10_000  # links that are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutEffects:
    """Effects of a comparison's links, one by one, and how far they are apart.

    ``spread`` is the standard deviation of the effect between layouts, relative (0.01 is 1%), without the noise of
    boots; None if that cannot be separated (single pairs). ``deviation`` is that of the links' effects as measured.
    """

    parts: tuple[GroupEffect, ...]
    spread: float | None
    deviation: float

    @property
    def freedom(self) -> int:
        """Degrees of freedom of statements on all layouts."""
        return len(self.parts) - 1

    def to_decide(self, margin: float) -> int | None:
        """Count the links, with as many pairs on each, that decide a margin; None if the count would be a guess.

        80% of campaigns call the variant equivalent if it makes no difference, and different if it makes one as large
        as the margin.
        """
        if len(self.parts) < LEAST or not self.deviation:
            return None
        return links_to_decide(float(as_often(np.asarray(self.deviation), self.freedom)), margin)


def links_to_decide(deviation: float, margin: float) -> int | None:
    """Count the links that decide a margin, as ``LayoutEffects.to_decide``; None if it takes too many.

    ``deviation`` is the true one of the links' mean differences: of the layouts and of the noise of their pairs.
    """
    limit = np.log1p(margin)  # the end that is nearer to 0
    counts = np.arange(LEAST, _MOST, dtype=np.float64)
    # Equivalence has two sides to fall out of; it needs more than difference does.
    needed = quantile(1 - ALPHA / 2, counts - 1) + quantile((1 + POWER) / 2, counts - 1)
    enough = np.flatnonzero(needed * deviation / counts**0.5 <= limit)
    return int(counts[enough[0]]) if len(enough) else None


def over_layouts(differences: Mapping[str, Floats]) -> tuple[Estimate, LayoutEffects]:
    """Estimate over layouts from the differences of log medians of each link's pairs; two links at least.

    Raises:
        MissingToolError: statsmodels is not installed.

    """
    values = list(differences.values())
    centres = np.array([pairs.mean() for pairs in values])
    parts = tuple(effect_alone(link, pairs) for link, pairs in differences.items())
    if not np.ptp(centres) > NO_WIDTH:
        return without_width(float(centres.mean())), LayoutEffects(parts=parts, spread=None, deviation=0.0)
    deviation = float(centres.std(ddof=1))
    return over_links(centres), LayoutEffects(parts=parts, spread=spread_between(values), deviation=deviation)


def spread_between(groups: list[Floats]) -> float | None:
    """Return the standard deviation between groups of logarithms without the noise in them; None for single values.

    Raises:
        MissingToolError: statsmodels is not installed.

    """
    if len(groups) < 2 or min(map(len, groups)) < 2 or not any(np.ptp(values) > NO_WIDTH for values in groups):
        return None
    _, spread = combined(np.array([values.mean() for values in groups]), variances_of_means(groups))
    return spread
