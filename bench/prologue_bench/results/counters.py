"""Counters of the CPU beside a workload's own number: what each run gave, as text lines and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from prologue_bench.errors import BenchError
from prologue_bench.results.fields import Fields, shown

# Events of recorder/count.c by perf's names, each with its unit; fewer are better.
UNITS: Final = MappingProxyType({
    "instructions": "instructions",
    "cycles": "cycles",
    "stalled-cycles-frontend": "cycles",
    "stalled-cycles-backend": "cycles",
    "L1-icache-load-misses": "refills",
    "iTLB-load-misses": "refills",
})  # fmt: skip
_READING: Final = "[count, enabled, running] or the name of an error"


@dataclass(frozen=True, slots=True)
class CounterReading:
    """An event of one run: ``count`` while it was on a counter, for ``running`` of ``enabled`` nanoseconds."""

    count: int
    enabled: int
    running: int

    @property
    def multiplexed(self) -> bool:
        """True if the event had to share its counter with others."""
        return self.running < self.enabled

    @property
    def scaled(self) -> float:
        """The count of the whole run, estimated if multiplexed, as perf stat does; ``running`` must not be 0."""
        return self.count * self.enabled / self.running if self.multiplexed else float(self.count)


# By event: a reading of each run, or the name of the error of perf_event_open.
EventReadings = Mapping[str, tuple[CounterReading | str, ...]]


def parse_counters(lines: Sequence[str], where: str) -> dict[str, CounterReading | str]:
    """Parse what recorder/count.c wrote of one run: ``NAME COUNT ENABLED RUNNING``, or ``NAME - ERROR``.

    Raises:
        BenchError: it is something else.

    """
    readings: dict[str, CounterReading | str] = {}
    for line in lines:
        name, *rest = line.split(" ")
        if name in readings or name not in UNITS:
            raise BenchError(f"{where}: counters: expected another event, found {shown(line)}")
        if len(rest) == 2 and rest[0] == "-" and rest[1]:
            readings[name] = rest[1]
        elif len(rest) == 3 and all(word.isascii() and word.isdigit() for word in rest):
            readings[name] = CounterReading(*map(int, rest))
        else:
            raise BenchError(f"{where}: counters: expected NAME COUNT ENABLED RUNNING, found {shown(line)}")
    return readings


def encode_counters(counters: Mapping[str, EventReadings]) -> dict[str, Any]:
    """Encode the field ``counters``, by workload; ``decode_counters`` reads it."""
    return {
        workload: {
            event: [each if isinstance(each, str) else [each.count, each.enabled, each.running] for each in readings]
            for event, readings in events.items()
        }
        for workload, events in counters.items()
    }


def decode_counters(fields: Fields) -> Mapping[str, EventReadings]:
    """Decode the field ``counters`` of a boot; empty if there is none, as in older files.

    Raises:
        BenchError: it is not what it must be.

    """
    if fields.data.get("counters") is None:
        return MappingProxyType({})
    by_workload = fields.below("counters")
    return MappingProxyType({workload: _decode_events(by_workload.below(workload)) for workload in by_workload.data})


def _decode_events(fields: Fields) -> EventReadings:
    events: dict[str, tuple[CounterReading | str, ...]] = {}
    for event, readings in fields.data.items():
        if not isinstance(readings, list):
            raise fields.wrong(event, f"a list of {_READING}")
        events[event] = tuple(_decode(reading, f"{fields.where}: {event}") for reading in readings)
    return MappingProxyType(events)


def _decode(reading: object, where: str) -> CounterReading | str:
    if isinstance(reading, str) and reading:
        return reading
    numbers = reading if isinstance(reading, list) and len(reading) == 3 else [None]
    if any(isinstance(number, bool) or not isinstance(number, int) or number < 0 for number in numbers):
        raise BenchError(f"{where}: expected {_READING}, found {shown(reading)}")
    return CounterReading(*numbers)


def join_counters(parts: Sequence[Mapping[str, EventReadings]]) -> Mapping[str, EventReadings]:
    """Join the counters of several parts of one boot, in their order."""
    joined: dict[str, dict[str, tuple[CounterReading | str, ...]]] = {}
    for part in parts:
        for workload, events in part.items():
            of_workload = joined.setdefault(workload, {})
            for event, readings in events.items():
                of_workload[event] = of_workload.get(event, ()) + readings
    return MappingProxyType(joined)
