"""The build-id among notes, whole or cut off."""

from __future__ import annotations

import struct

import pytest

from prologue.elf.notes import build_id_among, build_id_in_head, matches_perf
from prologue.elf.sections import PHDR

OTHER = b"\4\0\0\0" + b"\3\0\0\0" + b"\1\0\0\0" + b"GNU\0" + b"abc\0"
OURS = b"\4\0\0\0" + b"\x14\0\0\0" + b"\3\0\0\0" + b"GNU\0" + bytes(range(20))


def test_it_is_found_behind_another_note() -> None:
    assert build_id_among(OTHER + OURS) == bytes(range(20)).hex()


def test_a_part_of_one_is_none() -> None:
    for size in range(len(OURS)):
        assert build_id_among(OTHER + OURS[:size]) == ""


@pytest.mark.parametrize("size", [8, 16, 20, 32])
def test_perf_has_twenty_bytes_of_it(size: int) -> None:
    own = bytes(range(1, 1 + size))
    for recorded in (own[:20], own[:20].ljust(20, b"\0")):
        assert matches_perf(own.hex(), recorded.hex())
    assert not matches_perf(own.hex(), own[:4].hex())
    assert not matches_perf(own.hex(), bytes(20).hex())


def test_a_file_without_one_is_none_that_was_recorded() -> None:
    assert not matches_perf("", "")
    assert not matches_perf("", bytes(20).hex())


def test_the_first_page_of_a_file_has_it() -> None:
    """In a segment of notes; what is cut off, or no ELF file of 64 bits, has none."""
    start = struct.pack("<6s26xQ14xHH6x", b"\x7fELF\x02\x01", 64, PHDR.size, 2)
    load = PHDR.pack(1, 5, 0, 0, 0, 0x1000, 0x1000, 0x1000)
    note = PHDR.pack(4, 4, 64 + 2 * PHDR.size, 0, 0, len(OTHER + OURS), len(OTHER + OURS), 4)
    head = start + load + note + OTHER + OURS
    assert build_id_in_head(head.ljust(4096, b"\0")) == bytes(range(20)).hex()
    for size in range(len(head)):
        assert build_id_in_head(head[:size]) == ""
    assert build_id_in_head(head[:4] + b"\x01" + head[5:]) == ""
