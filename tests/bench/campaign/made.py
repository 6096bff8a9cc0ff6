"""A campaign that is made up, and a machine that can be made to fail at will."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

from prologue_bench.campaign.execution import Execution, FinishedBoot, Plan, plan_campaign
from prologue_bench.campaign.variants import Image, Link
from prologue_bench.errors import GuestLostError
from prologue_bench.recorder.output import Recorded
from prologue_bench.recorder.task import Task
from prologue_bench.results.journal import hold, open_journal
from prologue_bench.results.model import Evidence, Readback, Variant, Workload
from prologue_bench.targets.base import Attempt

MEASURED = Workload("work", "work", "seconds", "lower")
PLAN = Plan(
    task=Task(workloads=(MEASURED,), runs=2),
    blocks=3,
    seed=7,
    control=True,
    retries=1,
    timeout=10,
    command="prologue bench run",
)
LINK = Link(
    release="6.1",
    build_id="5eed",
    layout="2",
    images=(
        Image(Variant("nop-nop", "nop-nop", "a" * 64, 0), Path("Image.nop-nop")),
        Image(Variant("build", "build", "b" * 64, 9), Path("Image.build")),
    ),
    proof=("same link: 0 symbols moved",),
    stub={64: 0x52800000, 68: 0xD65F03C0},
)
LABELS = ("nop-nop", "nop-nop (A/A)", "build")


class MadeTarget:
    """What every made-up machine says of itself."""

    def facts(self) -> Mapping[str, str]:
        return {"target": "made up"}

    def measures(self, asked: tuple[Workload, ...]) -> tuple[Workload, ...]:
        return asked


class Machine(MadeTarget):
    """Does what ``failing`` says for its n-th boot: None, or what happens instead."""

    evidence: Evidence = "timing"

    def __init__(self, failing: Callable[[int], str | None] = lambda _: None) -> None:
        self.failing = failing
        self.attempts: list[Attempt] = []

    def boot(self, attempt: Attempt, task: Task) -> Recorded:
        self.attempts.append(attempt)
        what = self.failing(len(self.attempts))
        if what == "lost":
            raise GuestLostError("guest lost: no answer for 10 s; console in log, its end:\nlast lines")
        if what == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        mov = 64 if (attempt.label == "build") != (what == "wrong kernel") else 0
        values = tuple(float(k + 1) for k in range(task.runs))
        stub = LINK.stub if (attempt.label == "build") != (what == "not processed") else {64: 1, 68: 2}
        gate = {"governors": ["powersave" if what == "other governor" else "performance"]}
        return Recorded(
            machine={"build_id": "0dd" if what == "other build-id" else "5eed"},
            readback=None if what == "other build-id" else Readback("5eed", 64, mov, 64 - mov),
            gate_before=gate,
            gate_after=gate,
            values={"work": values},
            stub=tuple(stub.values()),
        )


def record(directory: Path, machine: Machine, plan: Plan = PLAN, link: Link = LINK) -> list[FinishedBoot]:
    finished: list[FinishedBoot] = []
    campaign = plan_campaign(plan, link, machine)
    with hold(directory), open_journal(directory, campaign) as journal:
        Execution(plan=plan, campaign=campaign, link=link, target=machine, journal=journal).run(finished.append)
    return finished
