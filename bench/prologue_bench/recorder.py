"""What is done on one boot of any machine: a task made into a shell script of ours, and its output read."""

from __future__ import annotations

import json
import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

from prologue_bench.console import Event, parse
from prologue_bench.cpus import count_cpus
from prologue_bench.errors import BenchError, GuestLostError
from prologue_bench.fields import Fields
from prologue_bench.results import Readback, Workload, read_direction

TOKEN: Final = "prologue"  # noqa: S105 - what marks a line as ours
_DELIMITERS: Final = "/|,;#!@%~"
_LAST_LINES: Final = 15


@dataclass(frozen=True, slots=True)
class Measured:
    """A workload as the recorder runs it.

    ``pattern`` is a basic regular expression with one group, tried on each line of the command's output: the last line
    that matches gives the number, where it matches first. None: the wall time of the command, in seconds.
    """

    workload: Workload
    pattern: str | None


@dataclass(frozen=True, slots=True)
class Task:
    """All that one boot is to do: every workload ``runs`` times, in turn.

    ``sites`` are bytes from ``_stext`` to the first slots that are to be read back, ascending; ``stub`` those to other
    words. ``governor`` is set for the time of the task if given.
    """

    workloads: tuple[Measured, ...]
    runs: int
    sites: tuple[int, ...] = ()
    governor: str | None = None
    stub: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the machine said: facts of its own (release, boot_id, cpu ...), gates, samples by workload name.

    ``stub`` are the words that the task's ``stub`` asked for; empty if they were not read.
    """

    machine: Mapping[str, str]
    readback: Readback | None
    gate_before: Mapping[str, Any]
    gate_after: Mapping[str, Any]
    values: Mapping[str, tuple[float, ...]]
    stub: tuple[int, ...] = ()


def script(task: Task, label: str = "") -> str:
    """The POSIX shell script that does the task and prints one line for everything it saw.

    Its output says what the task was, and under which label; ``LABEL`` in its environment is stronger.

    Raises:
        BenchError: a pattern that no sed script can hold.

    """
    settings = {
        "plan": json.dumps(encode_task(task)),
        "label": label,
        "runs": str(task.runs),
        "workloads": str(len(task.workloads)),
        "sites": " ".join(str(site) for site in task.sites),
        "stub": " ".join(str(offset) for offset in task.stub),
        "governor": task.governor or "",
    }
    for k, measured in enumerate(task.workloads):
        settings[f"command_{k}"] = measured.workload.command
        settings[f"extract_{k}"] = _extraction(measured.pattern)
    lines = [f"{name}={shlex.quote(value)}" for name, value in settings.items()]
    body = files("prologue_bench").joinpath("guest", "record.sh").read_text("utf-8")
    return "\n".join(["#!/bin/sh", *lines, body])


def _extraction(pattern: str | None) -> str:
    """The sed script that leaves the group of a line's first match.

    Newlines, which no line has, stand around the group in between: a ``.*`` before the pattern would take all but the
    last digit of a number that begins it.
    """
    if pattern is None:
        return ""
    free = [mark for mark in _DELIMITERS if mark not in pattern]
    if not free or "\n" in pattern or pattern.count(r"\(") != 1:
        raise BenchError(
            f"pattern {pattern!r}: expected a basic regular expression of one line with one group \\(...\\)"
        )
    return f"s{free[0]}{pattern}{free[0]}\\\n\\1\\\n{free[0]}\ns/.*\\n\\(.*\\)\\n.*/\\1/p"


def encode_task(task: Task) -> dict[str, Any]:
    """What is to be known of a task to read its output."""
    return {"workloads": encode_workloads(task.workloads), "runs": task.runs, "governor": task.governor}


def encode_workloads(workloads: Sequence[Measured]) -> list[dict[str, str | None]]:
    """As JSON; ``decode_workloads`` reads it."""
    return [
        {
            "name": measured.workload.name,
            "command": measured.workload.command,
            "unit": measured.workload.unit,
            "direction": measured.workload.direction,
            "pattern": measured.pattern,
        }
        for measured in workloads
    ]


def decode_workloads(fields: Fields) -> tuple[Measured, ...]:
    """The workloads in the field of that name.

    Raises:
        BenchError: a field is absent or wrong.

    """
    return tuple(
        Measured(
            Workload(row.text("name"), row.text("command"), row.text("unit"), read_direction(row)),
            row.optional_text("pattern"),
        )
        for row in fields.rows("workloads")
    )


def read_recorded(lines: Sequence[str], task: Task) -> Recorded:
    """What the script's output says.

    Raises:
        GuestLostError: it is not complete; what is missing, and the last lines.
        BenchError: a command failed, or gave no number.

    """
    events = parse(lines, TOKEN)
    _require_success(events, task)
    values = _values(events, task)
    missing = _missing(events, values, task)
    if missing:
        tail = "\n  ".join([line for line in lines if line.strip()][-_LAST_LINES:])
        raise GuestLostError(f"the recorder's output is not complete: no {missing}; its end:\n  {tail or '(nothing)'}")
    named = {event.name: event.data for event in events}
    gates = {str(event.data.get("when")): event.data for event in events if event.name == "gate"}
    return Recorded(
        MappingProxyType(read_facts(named["begin"], named["readback"])),
        _readback(named["readback"]),
        MappingProxyType(gates["before"]),
        MappingProxyType(gates["after"]),
        MappingProxyType(values),
        tuple(int(word, 16) for word in _text(named["readback"].get("stub", "")).split()),
    )


def _require_success(events: Sequence[Event], task: Task) -> None:
    for event in events:
        if event.name == "failed":
            fields = Fields(event.data, "the recorder's output")
            index = fields.integer("workload")
            name = task.workloads[index].workload.name if index < len(task.workloads) else f"workload {index}"
            last = _text(fields.data.get("last"))
            said = f"; last line of its output: {last}" if last else "; it printed nothing"
            raise BenchError(f"{name}: run {fields.integer('run')}: {_text(fields.data.get('why'))}{said}")


def _values(events: Sequence[Event], task: Task) -> dict[str, tuple[float, ...]]:
    """The samples by workload, in the order of their runs."""
    found: dict[tuple[int, int], float] = {}
    for event in events:
        if event.name == "value":
            fields = Fields(event.data, "the recorder's output")
            found[fields.integer("workload"), fields.integer("run")] = _number(fields)
    return {
        measured.workload.name: tuple(found[k, run] for run in range(1, task.runs + 1) if (k, run) in found)
        for k, measured in enumerate(task.workloads)
    }


def _number(fields: Fields) -> float:
    try:
        value = float(fields.text("value"))
    except ValueError as error:
        raise fields.wrong("value", "a number") from error
    if not math.isfinite(value):
        raise fields.wrong("value", "a number")
    return value


def _missing(events: Sequence[Event], values: Mapping[str, tuple[float, ...]], task: Task) -> str:
    seen = {f"gate {event.data.get('when')}" if event.name == "gate" else event.name for event in events}
    for name in ("begin", "readback", "gate before"):
        if name not in seen:
            return name
    for name, samples in values.items():
        if len(samples) < task.runs:
            return f"value of {name} in {task.runs - len(samples)} of {task.runs} runs"
    return next((name for name in ("gate after", "end") if name not in seen), "")


def read_facts(begin: Mapping[str, Any], readback: Mapping[str, Any]) -> dict[str, str]:
    """The machine's own words in these two events, as texts; what it does not know is left out."""
    facts = {name: _text(value) for name, value in begin.items() if isinstance(value, str)}
    facts["cpus"] = str(count_cpus(facts.get("cpus", "")))
    facts["cpu"] = ", ".join(
        f"{midr} x{count}" for midr, count in Counter(word[-8:] for word in facts.pop("midr", "").split()).items()
    )
    facts["build_id"] = _text(readback.get("build_id", ""))
    return {name: value for name, value in facts.items() if value}


def _readback(data: Mapping[str, Any]) -> Readback | None:
    if data.get("unread") is not None:
        return None
    fields = Fields(data, "the recorder's read-back")
    return Readback(fields.text("build_id"), fields.integer("sites"), fields.integer("mov"), fields.integer("nop"))


def _text(value: object) -> str:
    """A text as it was: the script writes bytes as code points of Latin-1."""
    try:
        return str(value).encode("latin-1").decode("utf-8", "replace")
    except UnicodeEncodeError:  # from the task, which is JSON of Python's own
        return str(value)
