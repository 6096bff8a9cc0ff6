"""The journal of a run that writes into a file whose half-written state could not be read: its whole plan.

It stands beside the file, is there before the first word is written, and goes after the last one. If the run is killed
in between, the same command, or ``--reverse``, reads from it what every word was.

Two numpy arrays, one after the other: what the plan is for, and a row for each word.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from prologue.errors import InputError, OutputError, RefusedError
from prologue.outputs import temporary_beside
from prologue.plan.edits import PatchPlan
from prologue.sites.kernel import Kernel
from prologue.sites.linked import Words, with_words

SUFFIX: Final = ".prologue-journal"
_VERSION: Final = "1"
_ROW: Final = np.dtype([("offset", "<i8"), ("width", "<i8"), ("old", "<u8"), ("new", "<u8")])


def journal_of(path: Path) -> Path:
    """Where the journal of a file is."""
    return path.with_name(path.name + SUFFIX)


def write_journal(path: Path, plan: PatchPlan) -> None:
    """Write the journal of a plan; it appears whole or not at all.

    It is not waited for until it is on disk: it is for a run that is killed, not for a machine that loses power.

    Raises:
        OutputError: it cannot be written beside the file.

    """
    rows = np.zeros(len(plan), _ROW)
    start = 0
    for stage in plan.stages:
        part = rows[start : start + len(stage)]
        part["offset"], part["width"], part["old"], part["new"] = stage.offsets, stage.width, stage.old, stage.new
        start += len(stage)
    head = np.array([_VERSION, plan.goal, plan.build_id, str(plan.file_size)])
    journal = journal_of(path)
    try:
        with temporary_beside(journal) as temporary:
            with temporary.open("wb") as stream:
                np.save(stream, head, allow_pickle=False)
                np.save(stream, rows, allow_pickle=False)
            temporary.replace(journal)
    except OSError as error:
        raise OutputError(
            f"cannot be written: {error.strerror}; it is needed to write in place: write a copy instead (-o)",
            path=journal,
        ) from error


def remove_journal(path: Path) -> None:
    """Remove the journal of a file that is finished.

    Raises:
        OutputError: it is there and cannot be removed.

    """
    try:
        journal_of(path).unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(
            f"cannot be removed: {error.strerror}; the file is finished: remove it", path=journal_of(path)
        ) from error


def linked_by_journal(kernel: Kernel) -> Kernel:
    """Read a half-written kernel as it was linked.

    Raises:
        RefusedError: there is no journal, or it is another file's.
        InputError: it is damaged.

    """
    journal = journal_of(kernel.path)
    try:
        with journal.open("rb") as stream:
            head = np.load(stream, allow_pickle=False).tolist()
            rows = np.load(stream, allow_pickle=False)
    except FileNotFoundError as error:
        raise RefusedError(
            f"an interrupted run left it half written, and its journal {journal.name} is gone: link again",
            path=kernel.path,
        ) from error
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"cannot be read as a journal ({error}): link {kernel.path} again", path=journal) from error
    if not isinstance(head, list) or len(head) != 4 or head[0] != _VERSION or rows.dtype != _ROW:
        raise InputError(f"is not a journal that this prologue knows: link {kernel.path} again", path=journal)
    _, goal, build_id, size = head
    end = rows["offset"] + rows["width"]
    if [build_id, size] != [kernel.build_id, str(kernel.image.size)] or len(rows) == 0 or end.max() > kernel.image.size:
        raise RefusedError(f"its journal {journal.name} is of another file: link again", path=kernel.path)
    if rows["offset"].min() < 0 or not np.isin(rows["width"], (4, 8)).all():
        raise InputError(f"has places that no file has: link {kernel.path} again", path=journal)
    was = rows["old"] if goal == "processed" else rows["new"]
    linked = with_words(
        kernel,
        (Words(rows["offset"][here], was[here], width) for width in (4, 8) if (here := rows["width"] == width).any()),
    )
    if linked.state != "untouched":
        raise RefusedError(f"its journal {journal.name} does not make it what was linked: link again", path=kernel.path)
    return linked
