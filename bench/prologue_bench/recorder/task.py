"""The task of one boot of any machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from prologue_bench.results.fields import Fields
from prologue_bench.results.model import Workload
from prologue_bench.results.store import decode_workload


@dataclass(frozen=True, slots=True)
class Measured:
    """A workload as the recorder runs it.

    ``pattern`` is a basic regular expression with one group, tried on each line of the command's output: the last line
    that matches gives the number, where it matches first. None: the wall time of the command, in seconds.
    """

    workload: Workload
    pattern: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Task of one boot: every workload ``runs`` times, in turn.

    ``sites`` are bytes from ``_stext`` to the first slots that are to be read back, ascending; ``stub`` those to other
    words. ``governor`` is set for the time of the task if given. ``counter`` is the program that counts events of the
    CPU in each run (recorder/count.c, built for the machine); empty if nothing is counted.
    """

    workloads: tuple[Measured, ...]
    runs: int
    sites: tuple[int, ...] = ()
    governor: str | None = None
    stub: tuple[int, ...] = ()
    counter: bytes = b""


def encode_task(task: Task) -> dict[str, Any]:
    """Encode what is to be known of a task to read its output."""
    return {"workloads": encode_workloads(task.workloads), "runs": task.runs, "governor": task.governor}


def encode_workloads(workloads: Sequence[Measured]) -> list[dict[str, str | None]]:
    """Encode workloads as JSON; ``decode_workloads`` reads it."""
    return [{**asdict(measured.workload), "pattern": measured.pattern} for measured in workloads]


def decode_workloads(fields: Fields) -> tuple[Measured, ...]:
    """Decode the workloads in the field of that name.

    Raises:
        BenchError: a field is absent or wrong.

    """
    return tuple(Measured(decode_workload(row), row.optional_text("pattern")) for row in fields.rows("workloads"))
