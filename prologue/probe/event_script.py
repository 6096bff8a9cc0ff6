"""The shell script that sets events on a machine, traces, and takes them off: ``set_events.sh`` with its events."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from importlib.resources import files

from prologue.elf.notes import gnu_build_id
from prologue.kernel.kernel import Kernel
from prologue.live.tracefs.machine import with_instance


def event_script(kernel: Kernel, group: str, control: str, names: Sequence[str], lines: Sequence[str]) -> str:
    """Make the script.

    Args:
        kernel: it refuses to run on another release, or another build.
        group: of all events.
        control: the file that makes events: ``kprobe_events`` or ``dynamic_events``.
        names: of the events, without the group.
        lines: of the events, as the kernel takes them.

    """
    body = files("prologue.probe").joinpath("set_events.sh").read_text(encoding="utf-8")
    head = [
        f"RELEASE={shlex.quote(kernel.release)}",
        f"BUILD_ID={shlex.quote(gnu_build_id(kernel.image))}",
        f"NAMES={shlex.quote(' '.join(names))}",
        f"group={shlex.quote(group)} control={control}",
        "events() {",
        "\tcat <<'END_OF_EVENTS'",
        *lines,
        "END_OF_EVENTS",
        "}",
    ]
    return "\n".join(head) + "\n" + with_instance(body)
