"""The task of one boot of any machine."""

from __future__ import annotations

from dataclasses import dataclass

from prologue_bench.results.model import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Task of one boot: every workload ``runs`` times, in turn.

    ``sites`` are bytes from ``_stext`` to the first slots that are to be read back, ascending; ``stub`` those to other
    words. ``governor`` is set for the time of the task if given. ``counter`` is the program that counts events of the
    CPU in each run (recorder/count.c, built for the machine); empty if nothing is counted.
    """

    workloads: tuple[Workload, ...]
    runs: int
    sites: tuple[int, ...] = ()
    governor: str | None = None
    stub: tuple[int, ...] = ()
    counter: bytes = b""
