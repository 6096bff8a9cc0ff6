"""The journal of a run that writes into a file whose half-written state could not be read: its whole plan.

It stands beside the file, is there before the first word is written, and goes after the last one. If the run is killed
in between, the same command, or ``--reverse``, reads from it what every word was.

A line of JSON says what the plan is for; then come rows of 32 bytes, little-endian, one for each word.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np

from prologue.errors import InputError, OutputError, RefusedError
from prologue.kernel.kernel import Kernel
from prologue.kernel.linked import PlacedWords, with_words
from prologue.outputs import temporary_beside
from prologue.plan.edits import PatchPlan

SUFFIX: Final = ".prologue-journal"
SCHEMA: Final = "prologue.journal/1"
_MOST: Final = 1 << 16  # bytes of the first line
_ROW: Final = np.dtype([("offset", "<i8"), ("width", "<i8"), ("old", "<u8"), ("new", "<u8")])


def journal_of(path: Path) -> Path:
    """Return the path of a file's journal."""
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
    head = {"schema": SCHEMA, "goal": plan.goal, "build_id": plan.build_id, "file_size": plan.file_size}
    journal = journal_of(path)
    try:
        with temporary_beside(journal) as temporary:
            with temporary.open("wb") as stream:
                stream.write(json.dumps(head).encode() + b"\n")
                stream.write(rows.data)
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
    head, rows = _read(journal, kernel.path)
    identity = [kernel.build_id, kernel.image.size]
    if [head.get("build_id"), head.get("file_size")] != identity or not len(rows):
        raise RefusedError(f"its journal {journal.name} is of another file: link again", path=kernel.path)
    # Places are compared with what is left of the file, for a sum could overflow.
    inside = (rows["offset"] >= 0) & (rows["offset"] <= kernel.image.size - rows["width"])
    if not np.isin(rows["width"], (4, 8)).all() or not inside.all():
        raise InputError(f"has places that no file has: link {kernel.path} again", path=journal)
    was = rows["old"] if head.get("goal") == "processed" else rows["new"]
    linked = with_words(
        kernel,
        (
            PlacedWords(rows["offset"][of_width], was[of_width], width)
            for width in (4, 8)
            if (of_width := rows["width"] == width).any()
        ),
    )
    if linked.state != "untouched":
        raise RefusedError(f"its journal {journal.name} does not make it what was linked: link again", path=kernel.path)
    return linked


def _read(journal: Path, path: Path) -> tuple[dict[str, Any], np.ndarray]:
    from prologue.documents import parse_json

    try:
        with journal.open("rb") as stream:
            head = parse_json(stream.readline(_MOST).decode())
            raw = stream.read()
    except FileNotFoundError as error:
        raise RefusedError(
            f"an interrupted run left it half written, and its journal {journal.name} is gone: link again", path=path
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot be read as a journal ({error}): link {path} again", path=journal) from error
    if not isinstance(head, dict) or head.get("schema") != SCHEMA or len(raw) % _ROW.itemsize:
        raise InputError(f"is not a whole journal that this prologue knows: link {path} again", path=journal)
    return head, np.frombuffer(raw, _ROW)
