"""Shows a campaign while it runs: a line for each boot, how far it is, and how long it will take."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prologue.report.terminal import is_quiet, warn

if TYPE_CHECKING:
    from collections.abc import Callable

    from prologue_bench.campaign.execution import FinishedBoot

_SHOWN = 4  # samples of a workload in a boot's line
_WORKLOADS = 2


@contextmanager
def watching(done: int, planned: int) -> Iterator[Callable[[FinishedBoot], None]]:
    """Yield what is to be called after each boot; ``--quiet`` leaves out all but void ones."""
    seconds: list[float] = []
    if is_quiet():
        yield lambda finished: None if finished.boot.void is None else warn(f"{_counted(finished)}: {_line(finished)}")
        return
    if not sys.stderr.isatty():

        def plain(finished: FinishedBoot) -> None:
            seconds.append(finished.seconds)
            print(f"{_counted(finished)}{_left(finished, seconds)}: {_line(finished)}", file=sys.stderr, flush=True)

        yield plain
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.text import Text

    begun = time.monotonic()

    class ThisBoot(ProgressColumn):
        """Seconds since the boot began: one without a sign of life is seen to be at work."""

        def render(self, task: Task) -> Text:
            return Text(f"this boot {time.monotonic() - begun:.0f} s")

    columns = (TextColumn("boots"), BarColumn(), MofNCompleteColumn(), ThisBoot(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", completed=done, total=planned)

        def drawn(finished: FinishedBoot) -> None:
            nonlocal begun
            begun = time.monotonic()
            seconds.append(finished.seconds)
            bar.console.print(f"{_counted(finished)}: {_line(finished)}", highlight=False, markup=False)
            bar.update(task, completed=finished.done, description=_left(finished, seconds).removeprefix(", "))

        yield drawn


def _counted(finished: FinishedBoot) -> str:
    board = "" if finished.boot.board is None else f" on {finished.boot.board}"
    return f"boot {finished.boot.number}{board}, {finished.done}/{finished.planned}"


def _line(finished: FinishedBoot) -> str:
    boot = finished.boot
    if boot.void is not None:
        return f"{boot.variant}: void: {boot.void}"
    parts = []
    for name, values in list(boot.values.items())[:_WORKLOADS]:
        more = " ..." if len(values) > _SHOWN else ""
        parts.append(f"{name}: {' '.join(map(_number, values[:_SHOWN]))}{more}")
    if len(boot.values) > _WORKLOADS:
        parts.append("...")
    return f"{boot.variant}: {'; '.join(parts)} ({finished.seconds:.0f} s)"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value.is_integer() else f"{value:.6g}"


def _left(finished: FinishedBoot, seconds: list[float]) -> str:
    """Estimate the time left if boots take as long as before; a machine that hung counts as one that took so long."""
    left = finished.left * statistics.median(seconds)
    if not left:
        return ""
    minutes, last_seconds = divmod(round(left), 60)
    hours, minutes = divmod(minutes, 60)
    return f", {hours} h {minutes:02d} min left" if hours else f", {minutes} min {last_seconds:02d} s left"
