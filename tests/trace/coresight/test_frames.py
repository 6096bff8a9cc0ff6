"""Whose bytes are in frames of the CoreSight formatter."""

from __future__ import annotations

from pathlib import Path

from prologue.trace.coresight.frames import frame_ids, pack_frames


def test_ids_of_frames(tmp_path: Path) -> None:
    """Data have all values, also those of IDs; 0 and the last 16 IDs are of no trace unit."""
    data = bytes(range(256)) * 3
    frames = b"".join(pack_frames(data, number) for number in (0x12, 0x6F, 0x7D))
    (tmp_path / "trace").write_bytes(b"before" + frames + b"\x21" * 15)
    assert frame_ids(tmp_path / "trace", 6, len(frames)) == [0x12, 0x6F]
    one = len(pack_frames(data, 0x12))
    assert frame_ids(tmp_path / "trace", 6, one) == [0x12]
    assert frame_ids(tmp_path / "trace", 6 + one, one + 15) == [0x6F]
    assert frame_ids(tmp_path / "trace", 6 + len(frames), 15) == []
