"""The order of a campaign's boots: randomised balanced blocks, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlannedBoot:
    """One boot that the plan wants: the ``position``-th of its block."""

    block: int
    position: int
    variant: str


def make_schedule(labels: Sequence[str], blocks: int, seed: int) -> tuple[PlannedBoot, ...]:
    """Every variant once in each block, in an order that is random for each block."""
    order = random.Random(seed)
    places: list[PlannedBoot] = []
    for block in range(blocks):
        shuffled = list(labels)
        order.shuffle(shuffled)
        places += [PlannedBoot(block, position, label) for position, label in enumerate(shuffled)]
    return tuple(places)
