"""Result sets made up for tests: written as a recorder writes them, from effects and noise that are known."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from prologue_bench.results.model import Boot, Campaign, Evidence, Readback, Variant, Workload
from prologue_bench.results.store import CAMPAIGN, RESULTS, encode_boot, encode_campaign

BASE, CONTROL, BUILD = "nop;nop", "nop;nop (A/A)", "mov x9,lr;nop"
HACKBENCH = Workload("hackbench, sockets", "hackbench -g 10 -l 1000 -P", "seconds", "lower")
MESSAGING = Workload("perf messaging, threads", "perf bench sched messaging -t", "messages/s", "higher")
BUILD_ID = "5eed" * 10


@dataclass(frozen=True)
class Made:
    """A campaign to make up: relative effects by variant, relative noise of boots and of runs."""

    pairs: int = 12
    runs: int = 10
    effects: dict[str, float] = field(default_factory=lambda: {BUILD: 0.0})
    boot_noise: float = 0.002
    run_noise: float = 0.004
    seed: int = 7
    started: int = 0  # day of the first boot
    evidence: Evidence = "timing"
    workloads: tuple[Workload, ...] = (HACKBENCH,)
    control: bool = True


def campaign(made: Made) -> Campaign:
    """The plan of such a campaign."""
    control = (Variant(CONTROL, "nop-nop", "a" * 64, 0),) if made.control else ()
    return Campaign(
        evidence=made.evidence,
        machine=MappingProxyType({"host": "board", "cpu": "Cortex-A57", "cpus": "8", "memory": "16 GiB"}),
        kernel=MappingProxyType({"release": "6.12.1", "build_id": BUILD_ID, "config_sha256": "c0" * 32}),
        workloads=made.workloads,
        variants=(
            Variant(BASE, "nop-nop", "a" * 64, 0),
            *control,
            Variant(BUILD, "build", "b" * 64, 41022),
        ),
        base=BASE,
        aa=CONTROL if made.control else None,
        seed=made.seed,
        boots_planned=made.pairs,
        runs_per_boot=made.runs,
        same_link=("same link: 0 symbols moved, 41022 words differ (prologues only)",),
    )


def boots(made: Made) -> list[Boot]:
    """Its boots, in random order within blocks."""
    rng, plan = np.random.default_rng(made.seed), campaign(made)
    found: list[Boot] = []
    for block in range(made.pairs):
        drift = 0.01 * np.sin(block / 3)
        for position, k in enumerate(rng.permutation(len(plan.variants))):
            variant, number = plan.variants[k], len(found) + 1
            effect = made.effects.get(variant.label, 0.0)
            values = {}
            for workload in made.workloads:
                middle = 5.73 * (1 + effect) * np.exp(drift + made.boot_noise * rng.standard_normal())
                noise = made.run_noise * (rng.exponential(1, made.runs) - 1)
                values[workload.name] = tuple(np.round(middle * np.exp(noise), 4).tolist())
            mov = 64 if variant.kind == "build" else 0
            minute = number + 1440 * made.started
            found.append(
                Boot(
                    block=block,
                    position=position,
                    variant=variant.label,
                    number=number,
                    started=f"2026-01-{1 + minute // 1440:02}T{minute % 1440 // 60:02}:{minute % 60:02}:00+00:00",
                    values=MappingProxyType(values),
                    readback=Readback(BUILD_ID, 64, mov, 64 - mov),
                    gate_before=MappingProxyType({"load": 0.01}),
                    gate_after=MappingProxyType({"load": 1.2}),
                )
            )
    return found


def write(directory: Path, plan: Campaign, recorded: list[Boot]) -> Path:
    """Write a result set."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / CAMPAIGN).write_text(encode_campaign(plan))
    (directory / RESULTS).write_text("".join(encode_boot(boot) for boot in recorded))
    return directory


def make(directory: Path, made: Made | None = None) -> Path:
    """Make up a campaign and write it."""
    made = made or Made()
    return write(directory, campaign(made), boots(made))


def make_exact(directory: Path, counts: dict[str, int]) -> Path:
    """A result set of exact counts, each taken in two boots."""
    workload = Workload("boot", "boot to init", "instructions", "lower")
    made = Made(pairs=2, runs=1, evidence="exact", workloads=(workload,), control=False)
    recorded = [
        replace(boot, values=MappingProxyType({workload.name: (float(counts[boot.variant]),)}))
        for boot in boots(made)
    ]  # fmt: skip
    return write(directory, campaign(made), recorded)
