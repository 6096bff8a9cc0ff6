"""The order of a campaign's boots: randomised balanced blocks, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prologue_bench.results.model import Boot


@dataclass(frozen=True, slots=True)
class PlannedBoot:
    """A boot that the plan wants: the ``position``-th of its block."""

    block: int
    position: int
    variant: str


def make_schedule(labels: Sequence[str], blocks: int, seed: int) -> tuple[PlannedBoot, ...]:
    """Place every variant once in each block, in an order that is random for each block."""
    order = random.Random(seed)
    places: list[PlannedBoot] = []
    for block in range(blocks):
        shuffled = list(labels)
        order.shuffle(shuffled)
        places += [PlannedBoot(block, position, label) for position, label in enumerate(shuffled)]
    return tuple(places)


def schedule_for(
    board: str | None, boots: Sequence[Boot], labels: Sequence[str], blocks: int, seed: int
) -> tuple[PlannedBoot, ...]:
    """Return the places of a plan as far as this board can fill them: each block stays on the board that began it.

    A block that another board began and did not finish is replaced by a further one; what is recorded of it stays.

    Args:
        board: the one in use; None if there is only one.
        boots: what is recorded.
        labels: of all variants.
        blocks: how many whole ones the plan wants.
        seed: of the order.

    """
    counted = [boot for boot in boots if boot.void is None and boot.block is not None]
    owners = {boot.block: boot.board for boot in counted}
    filled = {(boot.block, boot.position) for boot in counted}
    whole = [block for block in owners if all((block, position) in filled for position in range(len(labels)))]
    foreign = {block for block, owner in owners.items() if owner != board} - {*whole}
    several = range(blocks + len(whole) + len(foreign))
    unfinished = [block for block in several if block not in foreign and block not in whole]
    wanted = {*whole, *unfinished[: max(blocks - len(whole), 0)]}
    schedule = make_schedule(labels, len(several), seed)
    return tuple(place for place in schedule if place.block in wanted)
