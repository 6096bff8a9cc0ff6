"""Runs a campaign: every boot that its plan wants and its result set does not have yet, over one link or several."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from prologue_bench.campaign.schedule import PlannedBoot, schedule_for
from prologue_bench.errors import BenchError, GuestLostError
from prologue_bench.recorder.gate import void_reason
from prologue_bench.recorder.output import Recorded
from prologue_bench.recorder.task import Task
from prologue_bench.results.model import LOST, Boot, Campaign, contradiction
from prologue_bench.results.settings import void_unlike
from prologue_bench.results.store import LOGS, boot_log
from prologue_bench.targets.base import Attempt

if TYPE_CHECKING:
    from prologue_bench.campaign.variants import Link
    from prologue_bench.results.journal import Journal
    from prologue_bench.targets.base import SeveralBoards, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Wishes of a user beyond link and target. ``blocks`` is the number of boots of each variant.

    ``retries`` is how often a place is booted again after a boot that was lost or void; ``timeout`` is seconds of wall
    time for one boot and all its runs. ``kernel`` are more facts of the kernel: which of several links it is.
    """

    task: Task
    blocks: int
    seed: int
    control: bool
    retries: int
    timeout: float
    command: str
    kernel: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedBoot:
    """A boot as it ended, for what shows progress.

    ``done`` of ``planned`` places have one that counts; ``left`` are to be booted yet, this one again if it is to be.
    """

    boot: Boot
    done: int
    planned: int
    left: int
    seconds: float


def plan_campaign(plan: Plan, link: Link, target: Target) -> Campaign:
    """Fix everything before the first boot; the first variant is the base.

    A governor that is set for the runs is a fact of the machine, and so are counters, which cost some time: boots
    without it are those of another machine.

    Raises:
        BenchError: the target cannot be used.
        GuestLostError: it does not answer.

    """
    facts = dict(target.facts())
    if plan.task.governor:
        facts["governor"] = plan.task.governor
    if plan.task.counter:
        facts["counters"] = "per run"
    variants = tuple(image.variant for image in link.images)
    base = variants[0]
    control = replace(base, label=f"{base.label} (A/A)") if plan.control else None
    kernel = {"release": link.release, "build_id": link.build_id, "layout": link.layout, **plan.kernel}
    return Campaign(
        evidence=target.evidence,
        machine=facts,
        kernel=kernel,
        workloads=target.measures(plan.task.workloads),
        variants=(base, control, *variants[1:]) if control else variants,
        base=base.label,
        aa=control.label if control else None,
        seed=plan.seed,
        boots_planned=plan.blocks,
        runs_per_boot=plan.task.runs,
        same_link=link.proof,
        command=plan.command,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """A campaign at work; ``boards`` if its target is one of several, which may be replaced."""

    plan: Plan
    campaign: Campaign
    link: Link
    target: Target
    journal: Journal
    boards: SeveralBoards | None = None

    @property
    def schedule(self) -> tuple[PlannedBoot, ...]:
        """Every place of the plan, in order."""
        labels = [variant.label for variant in self.campaign.variants]
        board = None if self.boards is None else self.boards.board
        return schedule_for(board, self.journal.boots, labels, self.plan.blocks, self.plan.seed)

    def missing(self) -> list[PlannedBoot]:
        """Return the places that have no boot that counts yet."""
        done = self.journal.done()
        return [place for place in self.schedule if (place.block, place.position) not in done]

    def run(self, watch: Callable[[FinishedBoot], None], block: int | None = None) -> None:
        """Boot everything that is missing, or all of one block; each boot is on disk before the next begins.

        Raises:
            GuestLostError: one place was lost more often than ``retries`` allow, and there is no other board. All that
                was recorded stays.

        """
        (self.journal.directory / LOGS).mkdir(exist_ok=True)
        void: set[PlannedBoot] = set()  # however often they were tried
        while missing := [
            place for place in self.missing() if place not in void and (block is None or place.block == block)
        ]:
            place, left = missing[0], len(missing) - 1
            lost = self._fill(place, left, watch)
            if lost is None:
                void.add(place)  # if it is missing yet
                continue
            tries = self.plan.retries + 1
            given_up = GuestLostError(f"{lost.message}\n  given up after {tries} {'tries' if tries > 1 else 'try'}")
            if self.boards is None:
                raise given_up from lost
            self.boards.replace(given_up)

    def _fill(self, place: PlannedBoot, left: int, watch: Callable[[FinishedBoot], None]) -> GuestLostError | None:
        """Boot a place of the plan until a boot counts or ``retries`` are used up; return how the last one was lost."""
        for tries_left in range(self.plan.retries, -1, -1):
            begin = time.monotonic()
            boot, lost = self._boot(place)
            self.journal.append(boot)
            planned = len(self.schedule)
            again = boot.void is not None and tries_left > 0
            watch(
                FinishedBoot(
                    boot=boot,
                    done=planned - len(self.missing()),
                    planned=planned,
                    left=left + again,
                    seconds=time.monotonic() - begin,
                )
            )
            if boot.void is None:
                return None
        return lost

    def _boot(self, place: PlannedBoot) -> tuple[Boot, GuestLostError | None]:
        """Make one boot; return it, and the error if the machine was lost."""
        number = self.journal.next_number
        log = boot_log(self.journal.directory, number)
        blank = Boot(
            block=place.block,
            position=place.position,
            variant=place.variant,
            number=number,
            started=datetime.now(UTC).isoformat(),
            values={},
            board=None if self.boards is None else self.boards.board,
        )
        try:
            seen = self.target.boot(Attempt(self._image(place), log, self.plan.timeout, place.variant), self.plan.task)
        except GuestLostError as error:
            happened = error.message.splitlines()[0].partition("; console in ")[0]
            return replace(blank, void=LOST + re.sub(r"^\w+ lost: ", "", happened)), error
        judged = _judged(seen.added_to(blank), self.campaign, self._wrong_kernel(place, seen))
        return void_unlike((*self.journal.boots, judged))[-1], None

    def _wrong_kernel(self, place: PlannedBoot, seen: Recorded) -> str | None:
        """Say why this is not the variant, if sites do not show it: unread, or those of ``boot`` and ``build``."""
        running, expected = seen.machine.get("build_id"), self.campaign.kernel.get("build_id")
        if running and expected and running != expected:
            return f"runs build-id {running}, not {expected}"
        if not seen.stub:
            return None
        (kind,) = (variant.kind for variant in self.campaign.variants if variant.label == place.variant)
        processed = seen.stub == tuple(self.link.stub.values())
        if processed == (kind == "build"):
            return None
        return f"read-back: this kernel {'leaves prologues to the build' if processed else 'writes prologues itself'}"

    def _image(self, place: PlannedBoot) -> Path:
        """Return the Image at a place; the control's is the base's."""
        (wanted,) = (v.image_sha256 for v in self.campaign.variants if v.label == place.variant)
        return next(image.path for image in self.link.images if image.variant.image_sha256 == wanted)


def _judged(boot: Boot, campaign: Campaign, wrong: str | None) -> Boot:
    """Return the boot, void if the machine was not in the state it had to be."""
    absent = [workload.name for workload in campaign.workloads if workload.name not in boot.values]
    if absent:
        raise BenchError(f"boot {boot.number}: nothing was recorded of {', '.join(absent)}")
    reason = contradiction(boot, campaign) or wrong or void_reason(boot.gate_before, boot.gate_after)
    return boot if reason is None else replace(boot, void=reason)


def run_rounds(executions: Sequence[Execution], seed: int, watch: Callable[[FinishedBoot], None]) -> None:
    """Boot everything that is missing, a block of each link in random order, then the next block of each.

    So no link has a part of the day to itself.

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
