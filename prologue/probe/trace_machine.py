"""Probe events on a machine that runs: set, traced, and taken off again."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from prologue.errors import InputError
from prologue.kernel.kernel import Kernel
from prologue.live.pokes.recording import Loss
from prologue.live.tracefs.machine import TracedMachine, TracingScript
from prologue.probe.event import ProbeEvent
from prologue.probe.event_script import event_script
from prologue.probe.read_trace import TracedEvent, TraceReader, WireEvent, wire_event

_NAME: Final = "probe.sh"
_HITS: Final = re.compile(r"(\S+) (\d+) (\d+)")
_LOST: Final = re.compile(r"cpu(\d+) (\d+) (.+)")


class EventCount(NamedTuple):
    """Hits of an event, and misses (a probe inside of another; too many calls that have not returned)."""

    event: ProbeEvent
    hits: int
    misses: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRun:
    """The outcome of a run.

    ``refused`` are events that the kernel did not take, ``lost`` what ring buffers lost, ``unread`` counts events of
    the trace that could not be read. ``ended`` is the status of the command, or "stopped"; ``messages`` is what the
    command printed.
    """

    refused: tuple[ProbeEvent, ...]
    counts: tuple[EventCount, ...]
    lost: tuple[Loss, ...]
    unread: int
    ended: str
    messages: str


@dataclass(slots=True, kw_only=True)
class _Output:
    """The script's output, part by part; ``group`` is in the first line of each."""

    group: str
    reader: TraceReader
    take: Callable[[TracedEvent], object]
    parts: dict[str, list[str]] = field(default_factory=dict)
    current: str = ""

    def read(self, line: bytes) -> None:
        # Bytes that are no text are shown as \xff; U+2028 and the like are no ends of lines here.
        text = line.decode("utf-8", "backslashreplace")
        head = f"==== {self.group} "
        if text.startswith(head):
            self.current = text.removeprefix(head).rstrip("\n")
            self.parts[self.current] = []
        elif self.current == "events":
            hit = self.reader.read(text)
            if hit is not None:
                self.take(hit)
        elif self.current:
            self.parts[self.current].append(text.rstrip("\n"))


def trace_machine(
    kernel: Kernel,
    machine: TracedMachine,
    events: Sequence[ProbeEvent],
    options: Sequence[str],
    take: Callable[[TracedEvent], object],
) -> ProbeRun:
    """Set events on a machine, trace until it ends, and take them off, whatever happens.

    Args:
        kernel: the one that has to run there: another release or build is refused before anything is set.
        machine: where.
        events: at least one.
        options: of ``set_events.sh``: how long, or a command.
        take: gets each event as it comes, in another thread.

    Raises:
        InputError: ssh failed, the machine is not that kernel's, or the script says why it cannot trace.

    """
    token = secrets.token_hex(3)
    group = f"prologue_{token}"
    wires = [wire_event(event, group, number, token) for number, event in enumerate(events)]
    sent = [wire.sent for wire in wires]
    text = event_script(kernel, group, "kprobe_events", [e.name for e in sent], [e.line for e in sent])
    reader = TraceReader(wires)
    output = _Output(group=group, reader=reader, take=take)
    messages = machine.run(TracingScript(text, _NAME, "cannot be probed"), ["-e", *options], output.read)
    reader.finish()
    if output.current != "end":
        raise InputError("the answer is cut off: try again", path=machine.source)
    return _run_of(output, wires, messages)


def _run_of(output: _Output, wires: Sequence[WireEvent], messages: str) -> ProbeRun:
    refused = set(output.parts["refused"])
    counts = {match[1]: match for line in output.parts["hits"] if (match := _HITS.fullmatch(line)) is not None}
    return ProbeRun(
        refused=tuple(wire.event for wire in wires if wire.sent.line in refused),
        counts=tuple(
            EventCount(wire.event, int(count[2]), int(count[3]))
            for wire in wires
            if (count := counts.get(wire.sent.name)) is not None
        ),
        lost=tuple(
            Loss(f"events of CPU {match[1]} ({match[3]})", int(match[2]))
            for line in output.parts["lost"]
            if (match := _LOST.fullmatch(line)) is not None
        ),
        unread=output.reader.unread,
        ended=" ".join(output.parts["ended"]),
        messages=messages,
    )
