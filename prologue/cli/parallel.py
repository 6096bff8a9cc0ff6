"""The same work on thousands of files: one process for each CPU, and a progress bar."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from prologue.errors import InputError
from prologue.report.terminal import shows_progress
from prologue.signals import begin_worker, held_signals
from prologue.words import counted, printable

Item = TypeVar("Item")
Result = TypeVar("Result")

_FEW: Final = 8  # files; for these a second process costs more than it saves
_AT_ONCE: Final = 8  # files that a process gets at once
_SHOWN: Final = 3  # files with the same error


def run_many(work: Callable[[Item], Result], items: Sequence[Item], title: str, jobs: int = 0) -> Iterator[Result]:
    """Yield ``work(item)`` in the order of the items, one for each file.

    ``work`` must be picklable and must not raise what it can return. ``jobs`` 0 means one for each usable CPU.

    Raises:
        InputError: a process was killed from outside.

    """
    jobs = jobs or len(os.sched_getaffinity(0))
    if jobs == 1 or len(items) <= _FEW:
        yield from _shown(map(work, items), len(items), title)
        return
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    # All of them are forked at once: no more than have something to do.
    jobs = min(jobs, -(-len(items) // _AT_ONCE))
    pool = ProcessPoolExecutor(jobs, initializer=begin_worker)
    try:
        with held_signals():  # the processes are forked here
            results = pool.map(work, items, chunksize=_AT_ONCE)
        yield from _shown(results, len(items), title)
    except BrokenProcessPool as error:
        raise InputError(
            f"one of the {jobs} processes was killed, perhaps for lack of memory: run again with fewer (--jobs)"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)  # what was begun is finished, so that no file is left half-way


def print_errors(errors: Sequence[tuple[str, str]]) -> None:
    """Print (kind of error, whole message) pairs, the first few of each kind and how many more there are."""
    seen: dict[str, int] = {}
    for kind, message in errors:
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] <= _SHOWN:
            print(f"prologue: {printable(message)}", file=sys.stderr)
    for kind, count in seen.items():
        if count > _SHOWN:
            print(f"prologue: and {counted(count - _SHOWN, 'more file')}: {printable(kind)}", file=sys.stderr)


def _shown(results: Iterator[Result], total: int, title: str) -> Iterator[Result]:
    """Pass results on, with a progress bar if there are many files and standard error is a terminal."""
    if total <= _FEW or not shows_progress():
        yield from results
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(results, title, total, console=Console(stderr=True), transient=True)
