"""The kernel that runs here, as a machine to be recorded: the boot is the user's."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from prologue_bench.host.child import end_with_parent
from prologue_bench.recorder.output import Recorded, read_recorded
from prologue_bench.recorder.script import script
from prologue_bench.recorder.task import Task

_PATIENCE: Final = 10  # seconds for the script to put the governor back


def record_here(task: Task, watch: Callable[[str], None] = lambda line: None) -> Recorded:
    """Do a task on this machine; ``watch`` gets every line of the script's output as it comes.

    If we are interrupted, the script and its command are stopped. If we are killed, the script stops after the command
    that is running; either way it puts the governor back.

    Raises:
        BenchError: a command failed.
        GuestLostError: the script broke off.

    """
    lines: list[str] = []
    process = subprocess.Popen(
        ["sh", "-c", script(task)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace",
        start_new_session=True, preexec_fn=end_with_parent,  # noqa: PLW1509 - one prctl
    )  # fmt: skip
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    try:
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            watch(lines[-1])
        process.wait()
    finally:
        _stop(process)
        process.stdout.close()
    return read_recorded(lines, task)


def _stop(process: subprocess.Popen[str]) -> None:
    """End the script with all that it started; the script itself gets time to restore what it changed."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
