"""A task made into the POSIX shell script that does it on any machine."""

from __future__ import annotations

import json
import shlex
import string
from dataclasses import asdict
from importlib.resources import files
from typing import Final

from prologue_bench.errors import BenchError
from prologue_bench.recorder.task import Task

_PLAIN: Final = frozenset(string.ascii_letters.encode())  # a digit after an escape might be taken for a part of it
_DELIMITERS: Final = "/|,;#!@%~"


def script(task: Task, label: str = "") -> str:
    """Write the POSIX shell script that does the task and prints one line for everything it saw.

    Its output says what the task was, and under which label; ``LABEL`` in its environment is stronger.

    Raises:
        BenchError: a pattern that no sed script can hold.

    """
    known = {"workloads": list(map(asdict, task.workloads)), "runs": task.runs, "governor": task.governor}
    settings = {
        "plan": json.dumps(known),  # what is to be known of a task to read its output
        "label": label,
        "runs": str(task.runs),
        "workloads": str(len(task.workloads)),
        "sites": " ".join(str(site) for site in task.sites),
        "stub": " ".join(str(offset) for offset in task.stub),
        "governor": task.governor or "",
        "counter": _printable(task.counter),
    }
    for k, workload in enumerate(task.workloads):
        settings[f"command_{k}"] = workload.command
        settings[f"extract_{k}"] = _extraction(workload.pattern)
    lines = [f"{name}={shlex.quote(value)}" for name, value in settings.items()]
    parts = [files("prologue_bench.recorder").joinpath(name).read_text("utf-8") for name in ("count.sh", "record.sh")]
    return "\n".join(["#!/bin/sh", *lines, *parts])


def _printable(program: bytes) -> str:
    """Write bytes as an argument of printf's ``%b``."""
    return "".join(chr(byte) if byte in _PLAIN else f"\\0{byte:03o}" for byte in program)


def _extraction(pattern: str | None) -> str:
    """Write the sed script that leaves the group of a line's first match.

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
