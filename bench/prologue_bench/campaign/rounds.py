"""A campaign over several links: rounds of one block on every link, so that no link has a part of the day to itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from prologue_bench.campaign.execution import Execution, FinishedBoot


def run_rounds(executions: Sequence[Execution], seed: int, watch: Callable[[FinishedBoot], None]) -> None:
    """Boot everything that is missing, a block of each link in random order, then the next block of each.

    Raises:
        GuestLostError: as ``Execution.run``.

    """
    order = random.Random(seed)
    blocks = max(execution.plan.blocks for execution in executions)
    for block in range(blocks):
        shuffled = [*executions]
        order.shuffle(shuffled)
        for execution in shuffled:
            execution.run(lambda finished: watch(_of_all(executions, finished)), block=block)


def missing_of(executions: Sequence[Execution]) -> int:
    """Count the places of all plans that have no boot that counts yet."""
    return sum(len(execution.missing()) for execution in executions)


def planned_of(executions: Sequence[Execution]) -> int:
    """Count the places of all plans."""
    return sum(len(execution.schedule) for execution in executions)


def _of_all(executions: Sequence[Execution], finished: FinishedBoot) -> FinishedBoot:
    """Return a finished boot with the counts of all links."""
    planned, missing = planned_of(executions), missing_of(executions)
    return replace(finished, done=planned - missing, planned=planned, left=missing)
