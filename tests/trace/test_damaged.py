"""Damaged traces of every kind: no crash, and no range that the whole trace does not have."""

from __future__ import annotations

import gzip
import lzma
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from prologue.errors import InputError
from prologue.live.system.programs import decoder_text, linked_program
from prologue.trace.readers.sources import open_trace
from tests.support.cases import one_quick
from tests.support.compare import addresses
from tests.support.cs_etm import write
from tests.support.cs_recording import trace
from tests.trace.made import KERNEL, Run, perf_text, recording
from tests.trace.test_check import STEPS

A = KERNEL.at("vfs_read")
WHOLE = {
    "perf": perf_text(STEPS * 8).encode(),
    "recording": recording([{"start": A + 16 * (k % 3), "count": 1 + k % 2, "cpu": k % 2} for k in range(60)]),
}


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Cut, doubled, overwritten or filled with noise somewhere."""
    at, size = chance.randrange(len(data)), chance.randrange(1, 300)
    how = chance.randrange(5)
    if how == 0:
        return data[:at]
    if how == 1:
        return data[:at] + data[at + size :]
    if how == 2:
        return data[:at] + data[at : at + size] + data[at:]
    if how == 3:
        return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
    return data[:at] + chance.randbytes(size) + data[at + size :]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", WHOLE)
def test_no_damage_is_an_internal_error(run: Run, kind: str) -> None:
    chance = random.Random(kind)  # noqa: S311 - the same damage every time
    for number in range(60):
        data = WHOLE[kind]
        for _ in range(1 + number % 3):
            data = damaged(data, chance) or b"\n"
        for action in ("check", "disasm", "stats")[: 3 if number % 5 == 0 else 1]:
            _, error, status = run(action, data, status=None)
            assert status in (0, 1, 2, 5), (number, action, error)
            assert "internal error" not in error


def test_a_cut_text_gives_a_part_of_its_ranges(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(WHOLE["perf"])
    with open_trace(str(path)) as opened:
        whole = [row for batch in opened.batches for row in batch.ranges[["start", "end", "time"]].tolist()]
    for cut in range(3, len(WHOLE["perf"]), 997):
        path.write_bytes(WHOLE["perf"][:cut])
        with open_trace(str(path)) as opened:
            try:
                part = [row for batch in opened.batches for row in batch.ranges[["start", "end", "time"]].tolist()]
            except InputError:
                part = []
        assert part == whole[: len(part)]


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Some bytes others, or a piece damaged; records, headers and packets alike."""
    if chance.random() < 0.3:
        return damaged(data, chance)
    changed = bytearray(data)
    for _ in range(chance.randrange(1, 8)):
        changed[chance.randrange(len(changed))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    return bytes(changed)


@pytest.mark.usefixtures("opencsd")
@pytest.mark.parametrize(
    "count",
    [
        pytest.param(200, id="some", marks=pytest.mark.thorough),
        pytest.param(100_000, id="many", marks=[pytest.mark.extended, pytest.mark.timeout(0)]),
    ],
)
def test_mutated_perf_data(count: int, tmp_path: Path) -> None:
    """Each is read to its end or refused in one line, and every range is one that the decoder could follow."""
    vmlinux, path = KERNEL.write(tmp_path / "vmlinux"), tmp_path / "perf.data"
    pieces = decoder_text(linked_program(vmlinux, 0), None)
    forms: list[dict[str, Any]] = [{}, {"raw": True}, {"version": 2, "hardware_ids": True}, {"parts": 2}]
    whole = [write(path, trace(8, comms={77: "cat"}, **form)).read_bytes() for form in forms]
    low, high = KERNEL.base, KERNEL.base + 4 * len(KERNEL.words)
    chance = random.Random(count)  # noqa: S311 - the same damage every time
    read, refused = 0, set[str]()
    for number in range(count):
        path.write_bytes(mutated(whole[number % len(whole)], chance))
        try:
            with open_trace(str(path)) as opened:
                if opened.decoded is None:  # its magic is no more
                    continue
                opened.decoded.follow(pieces)
                for batch in opened.batches:
                    starts, ends = batch.ranges["start"], batch.ranges["end"]
                    assert addresses(starts[(starts < low) | (ends <= starts) | (high < ends)]) == [], number
        except InputError as error:
            refused.add(str(error))
        else:
            read += 1
    assert read > count // 3
    assert not [line for line in refused if "\n" in line]


COMPRESSED: dict[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    "gz": (gzip.compress, lambda data: zlib.decompressobj(wbits=31).decompress(data)),
    "xz": (lzma.compress, lambda data: lzma.LZMADecompressor().decompress(data)),
    "zst": (zstandard.compress, lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data)),
}


@pytest.mark.parametrize("kind", one_quick("perf", "recording"))
@pytest.mark.parametrize("ending", one_quick(*COMPRESSED))
def test_all_that_a_cut_file_still_has_is_read_before_the_error(kind: str, ending: str, tmp_path: Path) -> None:
    def collect(name: str, rows: list[tuple[int, ...]]) -> None:
        with open_trace(str(tmp_path / name)) as opened:
            for batch in opened.batches:
                rows += batch.ranges[["start", "end", "cpu", "flags"]].tolist()

    compress, decompress = COMPRESSED[ending]
    head = WHOLE[kind][:64] if kind == "recording" else b""
    noise = random.Random(ending)  # noqa: S311 - the same every time; what cannot be packed well has several blocks
    body = b"".join(WHOLE[kind][len(head) :] + bytes([noise.randrange(256)]) * 40 for _ in range(1200))
    packed = compress(head + body)
    cut = packed[: len(packed) * 2 // 3]
    there = decompress(cut)
    assert len(there) > 1_000_000
    (tmp_path / "plain").write_bytes(there if kind == "recording" else there[: there.rfind(b"\n") + 1])
    (tmp_path / "cut").write_bytes(cut)
    found: list[tuple[int, ...]] = []
    expected: list[tuple[int, ...]] = []
    collect("plain", expected)
    with pytest.raises(InputError, match="cut"):
        collect("cut", found)
    assert found == expected
    assert len(found) > 10_000
