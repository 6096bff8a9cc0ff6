"""``prologue probe --script``: a shell script that sets events on a machine without Python, and takes them off."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from importlib.resources import files
from typing import Final

from prologue.errors import UsageError
from prologue.live.probe.prober import Failure, Probe
from prologue.report.probe import event_lines

DEFAULT_GROUP: Final = "prologue"


def script(release: str, probes: Sequence[Probe], failures: Sequence[Failure]) -> str:
    """Make the script for a kernel of that release; all events are in one group.

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
    body = files("prologue.live.probe").joinpath("set_events.sh").read_text(encoding="utf-8")
    head = [
        "#!/bin/sh",
        *comments,
        f"RELEASE={shlex.quote(release)}",
        f"GROUP={shlex.quote(group)}",
        f"CONTROL={control}",
        f"NAMES={shlex.quote(' '.join(event.name for event in events))}",
        "events() {",
        "\tcat <<'END_OF_EVENTS'",
        *(event.line for event in events),
        "END_OF_EVENTS",
        "}",
    ]
    return "\n".join(head) + "\n" + body
