"""The campaign that decides a margin on boards: how many links, and how many blocks of boots on each."""

from __future__ import annotations

from dataclasses import dataclass

from prologue_bench.analysis.layouts import links_to_decide


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignSize:
    """A campaign on a board: links, and pairs of boots on each, whose mean differences have ``deviation``."""

    links: int
    pairs: int
    deviation: float

    @property
    def boots(self) -> int:
        """Boots of base, base again (the control) and the variant."""
        return 3 * self.links * self.pairs


def plan_campaign(margin: float, *, boots_vary: float, layouts_vary: float, pairs: int) -> CampaignSize | None:
    """Count the links that decide a margin, from relative standard deviations (0.01 is 1%); None if they are too many.

    ``boots_vary`` is that of a boot of one kernel, ``layouts_vary`` that of the effect between layouts.
    """
    deviation = (layouts_vary**2 + 2 * boots_vary**2 / pairs) ** 0.5
    links = links_to_decide(deviation, margin)
    return None if links is None else CampaignSize(links=links, pairs=pairs, deviation=deviation)
