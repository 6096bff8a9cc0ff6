"""Recordings of writes, of any format that a user names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from prologue.elf.files import open_regular
from prologue.errors import InputError
from prologue.live.pokes.convert import writes_of
from prologue.live.pokes.perf_data import read_perf_data
from prologue.live.pokes.recorder_output import ANY_START, read_output
from prologue.live.pokes.recorder_writes import writes_of_output
from prologue.live.pokes.recording import Recording
from prologue.live.pokes.recording_file import MAGIC, read_recording
from prologue.perf.container import is_perf_data

_MOST_TEXT: Final = 1 << 30  # bytes


def read_any(path: Path) -> Recording:
    """Read recorded writes of any recorder.

    Recorders are ``writes boot``, ``writes record``, and ``perf record``.

    Raises:
        InputError: it is of none of these, is damaged, or cannot be read.

    """
    if path.is_dir():
        return writes_of(read_perf_data(path))
    with open_regular(path) as (fd, size):
        head = os.pread(fd, 4096, 0)
    if head.startswith(MAGIC):
        return read_recording(path)
    if is_perf_data(head):
        return writes_of(read_perf_data(path))
    text = "" if b"\0" in head or size > _MOST_TEXT else path.read_text(errors="replace")
    if ANY_START not in text:
        raise InputError(
            "holds no recorded writes: expected a file of writes boot or writes record, or perf.data", path=path
        )
    try:
        return writes_of_output(read_output(text, path))
    except ValueError as error:  # Python reads no number of more than 4,300 digits
        raise InputError(f"damaged: a number cannot be parsed ({error})", path=path) from error
