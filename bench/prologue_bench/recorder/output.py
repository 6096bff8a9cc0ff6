"""Reads what the recorder's script printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from prologue_bench.errors import BenchError, GuestLostError
from prologue_bench.host.events import Event, parse, tail
from prologue_bench.recorder.gate import count_cpus, summarise_midrs
from prologue_bench.recorder.task import Task
from prologue_bench.results.counters import CounterReading, EventReadings, parse_counters
from prologue_bench.results.fields import SAMPLE, Fields, is_sample
from prologue_bench.results.model import NOTHING, Boot, Readback

TOKEN: Final = "prologue"  # noqa: S105 - what marks a line as ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Answers of the machine: facts of its own (release, boot_id, cpu ...), gates, samples by workload name.

    ``stub`` are the words that the task's ``stub`` asked for; empty if they were not read.
    """

    machine: Mapping[str, str]
    readback: Readback | None
    gate_before: Mapping[str, Any]
    gate_after: Mapping[str, Any]
    values: Mapping[str, tuple[float, ...]]
    stub: tuple[int, ...] = ()
    counters: Mapping[str, EventReadings] = field(default_factory=lambda: NOTHING)  # by workload

    def added_to(self, boot: Boot) -> Boot:
        """Return a boot with all that it gave."""
        return replace(
            boot, values=self.values, readback=self.readback, gate_before=self.gate_before, gate_after=self.gate_after,
            counters=self.counters,
        )  # fmt: skip


def read_recorded(lines: Sequence[str], task: Task, where: str = "") -> Recorded:
    """Read the script's output.

    Raises:
        GuestLostError: it is not complete; what is missing, and the last lines. Or it is of two boots. ``where`` is the
            last line.
        BenchError: a command failed, or gave no number.

    """
    try:
        return _read(lines, task)
    except GuestLostError as error:
        if not where:
            raise
        raise GuestLostError(f"{error.message}\n  {where}") from error


def _read(lines: Sequence[str], task: Task) -> Recorded:
    events = parse(lines, TOKEN)
    _require_success(events, task)
    _require_one_boot(events)
    values = _values(events, task)
    missing = _missing(events, values, task)
    if missing:
        raise GuestLostError(f"the recorder's output is not complete: no {missing}; its end:\n  {tail(lines)}")
    named = {event.name: event.data for event in events}
    gates = {str(event.data.get("when")): event.data for event in events if event.name == "gate"}
    return Recorded(
        machine=MappingProxyType(read_facts(named["begin"], named["readback"])),
        readback=_readback(named["readback"]),
        gate_before=MappingProxyType(gates["before"]),
        gate_after=MappingProxyType(gates["after"]),
        values=MappingProxyType(values),
        stub=tuple(int(word, 16) for word in _text(named["readback"].get("stub", "")).split()),
        counters=MappingProxyType(_counters(events, task)),
    )


def _require_success(events: Sequence[Event], task: Task) -> None:
    for event in events:
        if event.name == "uncounted":
            raise BenchError(f"--counters: {_text(event.data.get('why'))}")
        if event.name == "failed":
            fields = Fields(event.data, "the recorder's output")
            index = fields.integer("workload")
            name = task.workloads[index].name if index < len(task.workloads) else f"workload {index}"
            last = _text(fields.data.get("last"))
            ending = f"; last line of its output: {last}" if last else "; it printed nothing"
            raise BenchError(f"{name}: run {fields.integer('run')}: {_text(fields.data.get('why'))}{ending}")


def _require_one_boot(events: Sequence[Event]) -> None:
    """Check that nothing comes twice: where another boot begins, the line that says so may be torn."""
    seen: set[str] = set()
    for event in events:
        if (what := _what(event)) in seen:
            raise GuestLostError(f"the recorder's output is of two boots: {what} comes twice")
        seen.add(what)


def _what(event: Event) -> str:
    if event.name == "value":
        fields = Fields(event.data, "the recorder's output")
        return f"run {fields.integer('run')} of workload {fields.integer('workload')}"
    return f"gate {event.data.get('when')}" if event.name == "gate" else event.name


def _values(events: Sequence[Event], task: Task) -> dict[str, tuple[float, ...]]:
    """Return the samples by workload, in the order of their runs."""
    samples: dict[tuple[int, int], float] = {}
    for event in events:
        if event.name == "value":
            fields = Fields(event.data, "the recorder's output")
            samples[fields.integer("workload"), fields.integer("run")] = _number(fields)
    return {
        workload.name: tuple(samples[k, run] for run in range(1, task.runs + 1) if (k, run) in samples)
        for k, workload in enumerate(task.workloads)
    }


def _counters(events: Sequence[Event], task: Task) -> dict[str, EventReadings]:
    """Return what each event of the CPU gave, by workload, in the order of the runs; empty if none was counted."""
    runs: dict[int, dict[int, dict[str, CounterReading | str]]] = {}
    for event in events:
        if event.name == "value" and "counters" in event.data:
            fields = Fields(event.data, "the recorder's output")
            of_workload = runs.setdefault(fields.integer("workload"), {})
            of_workload[fields.integer("run")] = parse_counters(fields.texts("counters"), fields.where)
    return {
        workload.name: MappingProxyType({
            name: tuple(of_run[name] for _, of_run in sorted(runs[k].items()) if name in of_run)
            for name in dict.fromkeys(name for of_run in runs[k].values() for name in of_run)
        })
        for k, workload in enumerate(task.workloads)
        if k in runs
    }  # fmt: skip


def _number(fields: Fields) -> float:
    try:
        value = float(fields.text("value"))
    except ValueError as error:
        raise fields.wrong("value", "a number") from error
    if not is_sample(value):
        raise fields.wrong("value", SAMPLE)
    return value


def _missing(events: Sequence[Event], values: Mapping[str, tuple[float, ...]], task: Task) -> str:
    seen = set(map(_what, events))
    for name in ("begin", "readback", "gate before"):
        if name not in seen:
            return name
    for name, samples in values.items():
        if len(samples) < task.runs:
            return f"value of {name} in {task.runs - len(samples)} of {task.runs} runs"
    return next((name for name in ("gate after", "end") if name not in seen), "")


def read_facts(begin: Mapping[str, Any], readback: Mapping[str, Any]) -> dict[str, str]:
    """Read the machine's own words in these two events, as texts; what it does not know is left out."""
    facts = {name: _text(value) for name, value in begin.items() if isinstance(value, str)}
    facts["cpus"] = str(count_cpus(facts.get("cpus", "")))
    facts["cpu"] = summarise_midrs(facts.pop("midr", "").split())
    facts["build_id"] = _text(readback.get("build_id", ""))
    return {name: value for name, value in facts.items() if value}


def _readback(data: Mapping[str, Any]) -> Readback | None:
    if data.get("unread") is not None:
        return None
    fields = Fields(data, "the recorder's read-back")
    return Readback(fields.text("build_id"), fields.integer("sites"), fields.integer("mov"), fields.integer("nop"))


def _text(value: object) -> str:
    """Decode a text: the script writes bytes as code points of Latin-1."""
    try:
        return str(value).encode("latin-1").decode("utf-8", "replace")
    except UnicodeEncodeError:  # from the task, which is JSON of Python's own
        return str(value)
