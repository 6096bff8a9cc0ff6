"""A boot that was recorded by itself: one line of a record file, described in docs/json.md."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from prologue.words import counted
from prologue_bench.errors import BenchError
from prologue_bench.recorder.gate import void_reason
from prologue_bench.recorder.output import Recorded
from prologue_bench.recorder.task import Task
from prologue_bench.results.counters import EventReadings, decode_counters, encode_counters
from prologue_bench.results.fields import Fields
from prologue_bench.results.model import NOTHING, Readback, Workload
from prologue_bench.results.store import decode_readback, decode_workloads, encode_readback, read_time

SCHEMA: Final = "prologue.bench-record/1"
_OF_THE_BOOT: Final = ("label", "release", "boot_id", "build_id", "started", "clock")  # facts, but not of the machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A boot, or a part of its runs, under the label that its user gave it."""

    label: str
    boot_id: str
    machine: Mapping[str, str]
    kernel: Mapping[str, str]
    workloads: tuple[Workload, ...]
    runs: int
    started: str
    readback: Readback | None
    gate_before: Mapping[str, Any]
    gate_after: Mapping[str, Any]
    values: Mapping[str, tuple[float, ...]]
    void: str | None
    where: str = ""  # FILE:LINE
    counters: Mapping[str, EventReadings] = field(default_factory=lambda: NOTHING)


def make_record(recorded: Recorded, task: Task, label: str = "", where: str = "") -> Record:
    """Judge what a machine said; ``label`` is stronger than the one in it.

    Raises:
        BenchError: it has no label, or no boot_id.

    """
    void = _mixture(recorded.readback) or void_reason(recorded.gate_before, recorded.gate_after)
    blank = blank_record(recorded.machine, task, label, where)
    return replace(
        blank, readback=recorded.readback, gate_before=recorded.gate_before, gate_after=recorded.gate_after,
        values=recorded.values, counters=recorded.counters, void=void,
    )  # fmt: skip


def blank_record(facts: Mapping[str, str], task: Task, label: str, where: str) -> Record:
    """Make a record of which nothing is known but the machine and the task.

    Raises:
        BenchError: it has no label, or no boot_id.

    """
    for name in ("boot_id", "started", "release"):
        if name not in facts:
            raise BenchError(f"{where or 'this machine'}: does not report its {name}")
    chosen = label or facts.get("label", "")
    if not chosen:
        raise BenchError(f"{where}: no label: which variant was this? (LABEL=... sh SCRIPT)")
    return Record(
        label=chosen,
        boot_id=facts["boot_id"],
        machine={name: text for name, text in facts.items() if name not in _OF_THE_BOOT},
        kernel={name: facts[name] for name in ("release", "build_id") if name in facts},
        workloads=task.workloads,
        runs=task.runs,
        started=facts["started"],
        readback=None,
        gate_before=NOTHING,
        gate_after=NOTHING,
        values=NOTHING,
        void=None,
        where=where,
    )


def _mixture(seen: Readback | None) -> str | None:
    if seen is None or (seen.sites and seen.sites in (seen.mov, seen.nop)):
        return None
    return f"read-back: {seen.mov} MOV and {seen.nop} NOP in {counted(seen.sites, 'site')}"


def encode_record(record: Record) -> str:
    """Encode one line of a record file, with its end."""
    data = {
        "schema": SCHEMA,
        "label": record.label,
        "boot_id": record.boot_id,
        "machine": dict(record.machine),
        "kernel": dict(record.kernel),
        "workloads": list(map(asdict, record.workloads)),
        "runs": record.runs,
        "started": record.started,
        "readback": encode_readback(record.readback),
        "gate": {"before": dict(record.gate_before), "after": dict(record.gate_after)},
        "values": {name: list(values) for name, values in record.values.items()},
        "void": record.void,
    }
    if record.counters:
        data["counters"] = encode_counters(record.counters)
    return json.dumps(data) + "\n"


def decode_record(fields: Fields) -> Record:
    """Make a record of one line.

    Raises:
        BenchError: a field is absent or wrong.

    """
    fields.schema(SCHEMA)
    workloads, values, gate = decode_workloads(fields), fields.below("values"), fields.below("gate")
    void = fields.optional_text("void")
    # A void boot may have ended before all workloads were run.
    names = [m.name for m in workloads if void is None or m.name in values.data]
    return Record(
        label=fields.text("label"),
        boot_id=fields.text("boot_id"),
        machine=fields.table("machine"),
        kernel=fields.table("kernel"),
        workloads=workloads,
        runs=fields.integer("runs"),
        started=read_time(fields),
        readback=decode_readback(fields),
        gate_before=gate.below("before").data,
        gate_after=gate.below("after").data,
        values=MappingProxyType({name: values.numbers(name) for name in names}),
        void=void,
        where=fields.where,
        counters=decode_counters(fields),
    )
