"""Informs the user meanwhile: a line, or the progress of a long step, by a callback or drawn on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

Progress = Callable[[str, float], None]
"""Called with what is being done and how far it is, in per cent."""


def say(text: str) -> None:
    """Print a line for the user beside a report, on standard error."""
    print(text, file=sys.stderr, flush=True)


def silent(_what: str, _percent: float) -> None:
    """Show nothing."""


@contextmanager
def shown(progress: Progress | None = None) -> Iterator[Progress]:
    """Yield `progress`; without one, a bar on stderr if that is a terminal, otherwise silence."""
    if progress is not None:
        yield progress
        return
    if not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=100.0)
        yield lambda step, percent: bar.update(task, description=step, completed=percent)
