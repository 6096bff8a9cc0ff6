"""Frames of the CoreSight formatter, as a trace sink (ETR, ETB) has them in memory.

Form: Arm CoreSight Architecture Specification (IHI 0029), "Trace Formatter": in each frame of 16 bytes, every other one
is data or, if its low bit is set, a new ID; the last byte has the low bits of the bytes at even places.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

_FRAME: Final = 16
_IDLE: Final = b"\x01" + bytes(15)  # ID 0
_DATA: Final = 14  # bytes of data in a frame that begins with a trace ID, and has no other
_STEP: Final = 1 << 22  # bytes at once
_IDS: Final = range(1, 0x70)  # 0 is no source, and the last 16 are none of a trace unit
_A_SYNC: Final = bytes(11) + b"\x80"  # of ETMv4 and ETE


_Bytes = npt.NDArray[np.uint8]


def unpack_frames(data: _Bytes, source: int = 0) -> tuple[_Bytes, _Bytes, int]:
    """Return the data in frames and the trace ID of each byte of them, both of shape (n,); then the last ID.

    ``source`` is the last ID of the frames before them.
    """
    frames = data.reshape(-1, _FRAME)
    heads, low = frames[:, ::2], frames[:, 15:] >> np.arange(8, dtype=np.uint8) & 1
    is_id = (heads & 1).astype(np.bool_)
    last = np.maximum.accumulate(np.where(is_id.ravel(), np.arange(heads.size), -1))
    after = np.where(last < 0, source, heads.ravel()[last] >> 1).astype(np.uint8)
    before = np.concatenate([np.array([source], np.uint8), after[:-1]]).reshape(heads.shape)
    after = after.reshape(heads.shape)
    unpacked, ids = frames[:, :15].copy(), np.empty((len(frames), 15), np.uint8)
    unpacked[:, ::2] |= low.astype(np.uint8)
    ids[:, ::2] = np.where(is_id, 0xFF, after)
    ids[:, 1::2] = np.where(is_id & (low == 1), before, after)[:, :7]  # the new ID may count from the next byte on
    kept = ids != 0xFF
    return unpacked[kept], ids[kept], int(after[-1, -1])


def count_sources(path: Path, at: int, size: int) -> dict[int, int]:
    """Count the bytes of each trace unit's ID in ``size`` bytes of frames without synchronisation, from byte ``at`` on.

    OpenCSD passes over an ID that has no decoder, and does not say which it is.
    """
    counts, source = np.zeros(256, np.int64), 0
    for frames in _steps(path, at, size // _FRAME * _FRAME):
        _, ids, source = unpack_frames(frames, source)
        counts += np.bincount(ids, minlength=256)
    return {number: int(counts[number]) for number in _IDS if counts[number]}


def count_to_sync(path: Path, at: int, size: int, source: int | None) -> int:
    """Count the bytes of a trace unit before its next A-Sync in ``size`` bytes of a file from ``at`` on; all without.

    ``source`` is its ID in frames, of which the first is taken to begin with it; None if there are no frames.
    """
    before, count, last = b"", 0, source or 0
    for step in _steps(path, at, size if source is None else size // _FRAME * _FRAME):
        data = step
        if source is not None:
            data, ids, last = unpack_frames(step, last)
            data = data[ids == source]
        block = before + data.tobytes()
        place = block.find(_A_SYNC)
        if place >= 0:
            return count + place
        before = block[1 - len(_A_SYNC) :]
        count += len(block) - len(before)
    return count + len(before)


def _steps(path: Path, at: int, size: int) -> Iterator[_Bytes]:
    if size:
        data = np.memmap(path, np.uint8, "r", at, (size,))
        yield from (np.asarray(data[start : start + _STEP]) for start in range(0, size, _STEP))


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
    # After fewer bytes than a frame holds comes a change to no source, which has to be at an even place.
    rest = bytes(data[whole * _DATA :])
    parts = [rest] if len(rest) % 2 or not rest else [rest[:-1], rest[-1:]]
    return b"".join((frames.tobytes(), *(_short(part, trace_id) for part in parts if part), _IDLE))


def _short(data: bytes, trace_id: int) -> bytes:
    frame = bytearray(_FRAME)
    frame[0] = trace_id << 1 | 1
    for place, byte in enumerate(data, start=1):
        frame[place] = byte if place % 2 else byte & 0xFE
        frame[15] |= 0 if place % 2 else (byte & 1) << place // 2
    frame[len(data) + 1] = 1  # ID 0
    return bytes(frame)
