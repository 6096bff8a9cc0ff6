"""Recordings made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from prologue.live.pokes.recording import CAPABILITIES, Header, Recording, Rows, Trailer, empty_rows
from prologue.live.pokes.recording_file import recording_file

ORIGIN = Header(
    source="a test", machine="aarch64", clock="instructions", sees=CAPABILITIES, release="6.12.0", build_id="ab", cpus=2
)


def rows_of(*writes: dict[str, Any]) -> Rows:
    """A row for each of them: fields by name; callers may be fewer than there is room for."""
    rows = empty_rows(len(writes))
    for k, write in enumerate(writes):
        for name, value in write.items():
            if name == "callers":
                rows[name][k, : len(value)] = np.array(value, np.uint64)
            else:
                rows[name][k] = value
    return rows


def write_recording(path: Path, recording: Recording) -> Path:
    """The recording as a file."""
    with recording_file(path, recording.header) as writer:
        writer.add(recording.rows)
        writer.end(recording.trailer)
    return path


def recording_of(*writes: dict[str, Any], trailer: Trailer | None = None) -> Recording:
    """In memory."""
    return Recording("made", ORIGIN, trailer or Trailer(), rows_of(*writes))
