"""The build-id among notes, whole or cut off."""

from __future__ import annotations

from prologue.elf.notes import build_id_among

OTHER = b"\4\0\0\0" + b"\3\0\0\0" + b"\1\0\0\0" + b"GNU\0" + b"abc\0"
OURS = b"\4\0\0\0" + b"\x14\0\0\0" + b"\3\0\0\0" + b"GNU\0" + bytes(range(20))


def test_it_is_found_behind_another_note() -> None:
    assert build_id_among(OTHER + OURS) == bytes(range(20)).hex()


def test_a_part_of_one_is_none() -> None:
    for size in range(len(OURS)):
        assert build_id_among(OTHER + OURS[:size]) == ""
