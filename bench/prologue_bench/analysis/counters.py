"""Counters of the CPU as workloads of their own: a row for each, by the same statistics as the time beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from prologue.words import counted
from prologue_bench.results.counters import UNITS, CounterReading, EventReadings
from prologue_bench.results.model import Boot, ResultSet, Workload

# What QEMU's translator can count: its cycles are a clock's.
_EMULATED: Final = ("instructions",)


def with_counters(results: ResultSet) -> ResultSet:
    """Return the result set with a workload for each counter, after the workload in whose runs it was read.

    A counter that some run lacks has none: a note says what is missing, and why. Another says what was multiplexed.
    Emulated CPUs (``smoke``) keep instructions only.
    """
    boots = [boot for boot in results.boots if boot.void is None]
    if not any(boot.counters for boot in boots):
        return results
    workloads: list[Workload] = []
    notes: list[str] = []
    values: dict[int, dict[str, tuple[float, ...]]] = {id(boot): {} for boot in boots}
    for workload in results.campaign.workloads:
        workloads.append(workload)
        if not any(workload.name in boot.counters for boot in boots):
            continue  # such as a boot, which is not run
        for event in UNITS if results.campaign.evidence != "smoke" else _EMULATED:
            readings = [_readings(boot, workload, event) for boot in boots]
            if reason := _why_left_out(readings):
                notes.append(f"{workload.name}: {event} left out: {reason}")
                continue
            row = Workload(f"{workload.name}: {event}", workload.command, UNITS[event], "lower")
            workloads.append(row)
            for boot, of_boot in zip(boots, readings, strict=True):
                values[id(boot)][row.name] = tuple(r.scaled for r in of_boot if isinstance(r, CounterReading))
            notes += _multiplexed(row.name, readings)
    if results.campaign.evidence == "smoke":
        notes.append(
            "counters of an emulated CPU, not of hardware: only instructions are shown, its cycles are a clock"
        )
    return replace(
        results,
        campaign=replace(results.campaign, workloads=tuple(workloads)),
        boots=tuple(
            replace(boot, values=MappingProxyType({**boot.values, **values.get(id(boot), {})}))
            for boot in results.boots
        ),
        notes=(*results.notes, *notes),
    )


def _readings(boot: Boot, workload: Workload, event: str) -> tuple[CounterReading | str, ...]:
    """Return a reading for each run of a boot; what is missing is a reason."""
    nothing: EventReadings = MappingProxyType({})
    readings = boot.counters.get(workload.name, nothing).get(event, ())
    missing = len(boot.values[workload.name]) - len(readings)
    return (*map(_checked, readings), *["not recorded"] * missing)


def _checked(reading: CounterReading | str) -> CounterReading | str:
    if isinstance(reading, str):
        return reading
    if not reading.running:
        return "never on a counter"
    return reading if reading.count else "a count of 0 has no ratio"


def _why_left_out(readings: list[tuple[CounterReading | str, ...]]) -> str | None:
    """Say what is missing in how many runs; None if nothing is."""
    reasons = [reading for of_boot in readings for reading in of_boot if isinstance(reading, str)]
    runs = sum(map(len, readings))
    return ", ".join(
        f"{reason} in {reasons.count(reason)} of {counted(runs, 'run')}" for reason in dict.fromkeys(reasons)
    ) or None  # fmt: skip


def _multiplexed(name: str, readings: list[tuple[CounterReading | str, ...]]) -> Iterator[str]:
    shared = [r for of_boot in readings for r in of_boot if isinstance(r, CounterReading) and r.multiplexed]
    if shared:
        least = min(reading.running / reading.enabled for reading in shared)
        yield (
            f"{name}: multiplexed in {counted(len(shared), 'run')} (on a counter for {100 * least:.0f}% of the time at "
            "least), and scaled: an estimate"
        )
