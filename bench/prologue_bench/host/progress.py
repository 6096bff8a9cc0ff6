"""Informs the user meanwhile of the progress of a long step, by a callback or drawn on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prologue.report.terminal import is_quiet

if TYPE_CHECKING:
    from collections.abc import Iterator

Progress = Callable[[str, float], None]
"""Called with what is being done and how far it is, in per cent."""


def silent(_what: str, _percent: float) -> None:
    """Show nothing."""


@contextmanager
def shown(progress: Progress | None = None) -> Iterator[Progress]:
    """Yield `progress`; without one, a bar on stderr if that is a terminal and ``--quiet`` was not given."""
    if progress is not None:
        yield progress
        return
    if is_quiet() or not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=100.0)
        yield lambda step, percent: bar.update(task, description=step, completed=percent)
