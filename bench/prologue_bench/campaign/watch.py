"""What a campaign shows while it runs: a line for each boot, how far it is, and how long it will take."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from prologue_bench.campaign.execution import Step

_SHOWN = 4  # samples of a workload in a boot's line
_WORKLOADS = 2


@contextmanager
def watching(done: int, planned: int) -> Iterator[Callable[[Step], None]]:
    """Yield what is to be called after each boot."""
    seconds: list[float] = []
    if not sys.stderr.isatty():

        def plain(step: Step) -> None:
            seconds.append(step.seconds)
            print(f"{_counted(step)}{_left(step, seconds)}: {_line(step)}", file=sys.stderr, flush=True)

        yield plain
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("boots"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", completed=done, total=planned)

        def drawn(step: Step) -> None:
            seconds.append(step.seconds)
            bar.console.print(f"{_counted(step)}: {_line(step)}", highlight=False, markup=False)
            bar.update(task, completed=step.done, description=_left(step, seconds).removeprefix(", "))

        yield drawn


def _counted(step: Step) -> str:
    return f"boot {step.boot.number}, {step.done}/{step.planned}"


def _line(step: Step) -> str:
    boot = step.boot
    if boot.void is not None:
        return f"{boot.variant}: void: {boot.void}"
    parts = []
    for name, values in list(boot.values.items())[:_WORKLOADS]:
        more = " ..." if len(values) > _SHOWN else ""
        parts.append(f"{name}: {' '.join(map(_number, values[:_SHOWN]))}{more}")
    if len(boot.values) > _WORKLOADS:
        parts.append("...")
    return f"{boot.variant}: {'; '.join(parts)} ({step.seconds:.0f} s)"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value.is_integer() else f"{value:.6g}"


def _left(step: Step, seconds: list[float]) -> str:
    """The time left if boots go on as they did; a machine that hung counts as one that took so long."""
    left = step.left * statistics.median(seconds)
    if not left:
        return ""
    minutes, rest = divmod(round(left), 60)
    hours, minutes = divmod(minutes, 60)
    return f", {hours} h {minutes:02d} min left" if hours else f", {minutes} min {rest:02d} s left"
