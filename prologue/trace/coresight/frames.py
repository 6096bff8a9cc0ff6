"""Trace IDs in frames of the CoreSight formatter. OpenCSD passes over an ID that has no decoder, and does not say so.

Form: Arm CoreSight architecture specification, "Formatter": in each frame of 16 bytes, every other one is data or, if
its low bit is set, a new ID.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

_FRAME: Final = 16
_STEP: Final = 1 << 22  # bytes at once
_IDS: Final = slice(1, 0x70)  # 0 is no source, and the last 16 are none of a trace unit


def frame_ids(path: Path, at: int, size: int) -> list[int]:
    """Return the trace IDs in ``size`` bytes of frames without synchronisation, from byte ``at`` of a file on."""
    seen = np.zeros(128, np.bool_)
    if size < _FRAME:
        return []
    data = np.memmap(path, np.uint8, "r", at, (size // _FRAME * _FRAME,))
    for start in range(0, len(data), _STEP):
        heads = np.asarray(data[start : start + _STEP : 2])
        seen[heads[heads & 1 == 1] >> 1] = True
    return [_IDS.start + number for number in np.flatnonzero(seen[_IDS]).tolist()]
