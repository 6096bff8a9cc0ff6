"""Frames of the CoreSight formatter, as a trace sink (ETR, ETB) has them in memory.

Form: Arm CoreSight Architecture Specification (IHI 0029), "Trace Formatter": in each frame of 16 bytes, every other one
is data or, if its low bit is set, a new ID; the last byte has the low bits of the bytes at even places.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

_FRAME: Final = 16
_IDLE: Final = b"\x01" + bytes(15)  # ID 0
_DATA: Final = 14  # bytes of data in a frame that begins with a trace ID, and has no other
_STEP: Final = 1 << 22  # bytes at once
_IDS: Final = slice(1, 0x70)  # 0 is no source, and the last 16 are none of a trace unit


def frame_ids(path: Path, at: int, size: int) -> list[int]:
    """Return the trace IDs in ``size`` bytes of frames without synchronisation, from byte ``at`` of a file on.

    OpenCSD passes over an ID that has no decoder, and does not say so.
    """
    seen = np.zeros(128, np.bool_)
    if size < _FRAME:
        return []
    data = np.memmap(path, np.uint8, "r", at, (size // _FRAME * _FRAME,))
    for start in range(0, len(data), _STEP):
        heads = np.asarray(data[start : start + _STEP : 2])
        seen[heads[heads & 1 == 1] >> 1] = True
    return [_IDS.start + number for number in np.flatnonzero(seen[_IDS]).tolist()]


def pack_frames(data: bytes | bytearray, trace_id: int) -> bytes:
    """Pack the data of one source into frames, and add a frame of no source, as a formatter does when it is stopped.

    perf needs the last frame: it takes branches that its decoder holds back only when more data come, and otherwise
    drops some (``cs_etm_decoder__process_data_block``, tools/perf/util/cs-etm-decoder, 6.1-6.12).

    Args:
        data: the stream of a trace unit.
        trace_id: its ID, 1 to 0x6F.

    """
    whole = len(data) // _DATA
    payload = np.frombuffer(data, np.uint8, whole * _DATA).reshape(-1, _DATA)
    frames = np.zeros((whole, _FRAME), np.uint8)
    frames[:, 0] = trace_id << 1 | 1
    frames[:, 1:15] = payload
    even = payload[:, 1::2]  # at places 2, 4, ... 14
    frames[:, 2:15:2] &= 0xFE
    frames[:, 15] = ((even & 1) << np.arange(1, 8, dtype=np.uint8)).sum(axis=1, dtype=np.uint8)
    return b"".join((frames.tobytes(), *_pack_rest(bytes(data[whole * _DATA :]), trace_id), _IDLE))


def _pack_rest(data: bytes, trace_id: int) -> list[bytes]:
    """Pack fewer bytes than a frame holds: a change to no source follows them, and has to be at an even place."""
    parts = [data] if len(data) % 2 or not data else [data[:-1], data[-1:]]
    return [_short(part, trace_id) for part in parts if part]


def _short(data: bytes, trace_id: int) -> bytes:
    frame = bytearray(_FRAME)
    frame[0] = trace_id << 1 | 1
    for place, byte in enumerate(data, start=1):
        frame[place] = byte if place % 2 else byte & 0xFE
        frame[15] |= 0 if place % 2 else (byte & 1) << place // 2
    frame[len(data) + 1] = 1  # ID 0
    return bytes(frame)
