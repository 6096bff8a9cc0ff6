"""``prologue probe --script``: a shell script that sets events on a machine without Python, and takes them off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from prologue.errors import UsageError
from prologue.kernel.kernel import Kernel
from prologue.live.probe.event_script import event_script
from prologue.live.probe.prober import Failure, Probe
from prologue.report.probe import event_lines

DEFAULT_GROUP: Final = "prologue"


def script(kernel: Kernel, probes: Sequence[Probe], failures: Sequence[Failure]) -> str:
    """Make the script for that kernel; all events are in one group.

    Raises:
        UsageError: they are in several groups.

    """
    events = [probe.event for probe in probes if probe.event is not None]
    groups = sorted({event.group for event in events})
    if len(groups) > 1:
        raise UsageError(f"a script has one group, and takes off no other: {', '.join(groups)}")
    group = groups[0] if groups else DEFAULT_GROUP
    control = "dynamic_events" if any(event.kind == "f" for event in events) else "kprobe_events"
    comments = [line for line in event_lines(probes, failures) if line.startswith("#")]
    text = event_script(kernel, group, control, [e.name for e in events], [e.line for e in events])
    return "\n".join(["#!/bin/sh", *comments, text])
