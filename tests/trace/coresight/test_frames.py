"""Whose bytes are in frames of the CoreSight formatter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prologue.trace.coresight.frames import count_sources, count_to_sync, pack_frames, unpack_frames

_SYNC = bytes(11) + b"\x80"


def by_bytes(frames: bytes, source: int) -> tuple[list[tuple[int, int]], int]:
    """Data and IDs by the rules of IHI 0029, byte after byte."""
    data = []
    for at in range(0, len(frames), 16):
        frame, later = frames[at : at + 16], source
        for place, byte in enumerate(frame[:15]):
            low = frame[15] >> place // 2 & 1
            if place % 2:
                data.append((byte, source))
                source = later
            elif byte & 1:
                later = byte >> 1
                source = source if low else later
            else:
                data.append((byte | low, source))
        source = later
    return data, source


def test_the_same_as_byte_after_byte() -> None:
    frames = np.random.default_rng(1).bytes(16 * 500)
    expected, last = by_bytes(frames, 0x21)
    data, ids, source = unpack_frames(np.frombuffer(frames, np.uint8), 0x21)
    assert list(zip(data.tolist(), ids.tolist(), strict=True)) == expected
    assert source == last


def test_bytes_of_each_id(tmp_path: Path) -> None:
    """Data have all values, also those of IDs; 0 and the last 16 IDs are of no trace unit."""
    data = bytes(range(256)) * 3
    frames = b"".join(pack_frames(data, number) for number in (0x12, 0x6F, 0x7D))
    (tmp_path / "trace").write_bytes(b"before" + frames + b"\x21" * 15)
    assert count_sources(tmp_path / "trace", 6, len(frames)) == {0x12: len(data), 0x6F: len(data)}
    size = len(pack_frames(data, 0x12))
    assert count_sources(tmp_path / "trace", 6, size) == {0x12: len(data)}
    assert count_sources(tmp_path / "trace", 6 + size, size + 15) == {0x6F: len(data)}
    assert count_sources(tmp_path / "trace", 6 + len(frames), 15) == {}


@pytest.mark.parametrize("source", [None, 0x12], ids=["raw", "frames"])
def test_bytes_up_to_the_next_a_sync(source: int | None, tmp_path: Path) -> None:
    before, after = b"\xf7" * 100 + bytes(10), _SYNC + b"\xf7" * 50
    other = pack_frames(_SYNC, 0x13) if source else b""

    def packed(data: bytes) -> bytes:
        return pack_frames(data, source) if source else data

    (tmp_path / "trace").write_bytes(packed(before) + other + packed(b"\xf7" + after))
    size = (tmp_path / "trace").stat().st_size
    assert count_to_sync(tmp_path / "trace", 0, size, source) == len(before) + 1
    assert count_to_sync(tmp_path / "trace", 0, len(packed(before)), source) == len(before)
