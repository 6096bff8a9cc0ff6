"""Boots that were lost or left out, by variant: what is missing may be what would have changed the answer.

If the slow boots of one variant time out and are tried again, that variant looks fast. So losses are counted and
compared before anything else: unequal ones leave no verdict, whatever the samples say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from prologue_bench.results.model import Boot, ResultSet

# What a boot is void for although its times have no part in it: something else was booted, or set.
_MISTAKES: Final = ("settings differ", "read-back: ", "runs build-id ")
# Chance alone makes losses so unequal in one campaign of five that lost boots at all. With 0.05, two boots of 22 that
# were lost beside none of 40 would pass, and leave 8% false alarms if one boot in ten is slow.
_UNEQUAL: Final = 0.2


@dataclass(frozen=True, slots=True)
class Losses:
    """Boots of one variant: all that were begun, those that were lost (hung, crashed), those left out as unfit."""

    variant: str
    boots: int
    lost: int
    unfit: int

    @property
    def missing(self) -> int:
        """Boots without a time, for a reason that may depend on it."""
        return self.lost + self.unfit

    def __str__(self) -> str:
        """Write ``build was lost in 10 of 30 boots``."""
        parts = [f"lost in {self.lost}"] if self.lost or not self.unfit else []
        parts += [f"left out in {self.unfit}"] if self.unfit else []
        return f"{self.variant} was {' and '.join(parts)} of {self.boots} boots"


def losses_of(results: ResultSet) -> tuple[Losses, ...]:
    """Count the boots of every variant, in the order of the campaign; empty if boots are not known."""
    if not results.boots_known:
        return ()
    labels = [variant.label for variant in results.campaign.variants]
    return tuple(_losses(label, [boot for boot in results.boots if boot.variant == label]) for label in labels)


def _losses(label: str, boots: list[Boot]) -> Losses:
    lost = sum(boot.is_lost for boot in boots)
    void = sum(boot.void is not None and not boot.void.startswith(_MISTAKES) for boot in boots)
    return Losses(label, len(boots), lost, void - lost)


def losses_line(counts: tuple[Losses, ...]) -> str:
    """Write the counts of all variants."""
    return "boots lost or left out: " + "; ".join(map(str, counts))


def unequal_losses(results: ResultSet) -> dict[str, str]:
    """Return, for each variant whose losses are not those of the base's kernel, a sentence that says so.

    Fisher's exact test. The A/A control is the base's kernel, so its boots count with those of the base.
    """
    from scipy import stats

    campaign, counts = results.campaign, losses_of(results)
    base = [losses for losses in counts if losses.variant in (campaign.base, campaign.aa)]
    missing, boots = sum(losses.missing for losses in base), sum(losses.boots for losses in base)
    unequal: dict[str, str] = {}
    for losses in counts:
        if losses in base or not losses.missing + missing:
            continue
        table = [[losses.missing, losses.boots - losses.missing], [missing, boots - missing]]
        p = float(stats.fisher_exact(np.array(table)).pvalue)
        if p <= _UNEQUAL:
            others = ", ".join(f"{part.variant} in {part.missing} of {part.boots}" for part in base)
            unequal[losses.variant] = f"{losses}, {others} (Fisher's exact test, p = {p:.1g})"
    return unequal
