"""A trace of probe events, as lines and as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from prologue.kernel.kernel import Kernel
from prologue.probe.arguments import Argument
from prologue.probe.prober import Failure, Probe
from prologue.probe.read_trace import FieldValue, TracedEvent
from prologue.probe.report.verdicts import probe_data
from prologue.probe.trace_machine import ProbeRun
from prologue.words import printable

SCHEMA: Final = "prologue.live-probe/1"
_FAULT: Final = "(fault)"


def hit_text(hit: TracedEvent) -> str:
    """Return an event in one line: time, CPU, task, name, place, arguments."""
    values = "".join(
        f" {argument.name}={_value_text(argument, hit.values[argument.name])}" for argument in hit.event.arguments
    )
    return f"{hit.time} [{hit.cpu:03}] {printable(hit.comm)}-{hit.pid} {hit.event.name}: ({hit.place}){values}"


def _value_text(argument: Argument, value: FieldValue) -> str:
    if isinstance(value, tuple):
        return "{" + ",".join(_value_text(argument, part) for part in value) + "}"
    if isinstance(value, str) and argument.is_text:
        return f'"{printable(value)}"'
    return _FAULT if value is None else printable(str(value))


def hit_data(hit: TracedEvent) -> dict[str, Any]:
    """Return an event as documented in docs/json.md."""
    return {
        "event": hit.event.name, "time": hit.time, "cpu": hit.cpu, "comm": hit.comm, "pid": hit.pid,
        "place": hit.place, "values": dict(hit.values),
    }  # fmt: skip


def trace_data(
    kernel: Kernel,
    source: str,
    judged: tuple[Sequence[Probe], Sequence[Failure]],
    hits: Sequence[TracedEvent],
    run: ProbeRun | None,
) -> dict[str, Any]:
    """Return a run as documented in docs/json.md; ``run`` is None if nothing was set."""
    return {
        **probe_data(kernel, *judged),
        "schema": SCHEMA,
        "source": source,
        "hits": [hit_data(hit) for hit in hits],
        "counts": [
            {"event": count.event.name, "hits": count.hits, "misses": count.misses} for count in run.counts
        ] if run else [],
        "refused": [event.name for event in run.refused] if run else [],
        "lost": [loss._asdict() for loss in run.lost] if run else [],
        "unread": run.unread if run else 0,
        "ended": run.ended if run else None,
    }  # fmt: skip
