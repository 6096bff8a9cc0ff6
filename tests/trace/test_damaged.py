"""Damaged traces of every kind: no crash, and no range that the whole trace does not have."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.errors import InputError
from prologue.trace.sources import open_trace
from tests.trace.made import KERNEL, perf_text, recording
from tests.trace.test_check import STEPS
from tests.trace.test_opencsd import CONTEXT, element, range_

A = KERNEL.at("vfs_read")
WHOLE = {
    "perf": perf_text(STEPS * 8).encode(),
    "opencsd": (CONTEXT + (range_(A, 5) + element("EXCEPTION_RET()") + range_(A + 32, 2)) * 30).encode(),
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


@pytest.mark.parametrize("kind", WHOLE)
def test_no_damage_is_an_internal_error(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vmlinux, path = KERNEL.write(tmp_path / "vmlinux"), tmp_path / "trace"
    chance = random.Random(kind)  # noqa: S311 - the same damage every time
    for number in range(60):
        data = WHOLE[kind]
        for _ in range(1 + number % 3):
            data = damaged(data, chance) or b"\n"
        path.write_bytes(data)
        for action in ("check", "disasm", "stats")[: 3 if number % 5 == 0 else 1]:
            code = main(["trace", action, str(path), "--vmlinux", str(vmlinux)])
            error = capsys.readouterr().err
            assert code in (0, 1, 2), (number, action, error)
            assert "internal error" not in error


def test_a_cut_text_gives_a_part_of_its_ranges(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(WHOLE["perf"])
    with open_trace(str(path)) as trace:
        whole = [row for batch in trace.batches for row in batch.ranges[["start", "end", "time"]].tolist()]
    for cut in range(3, len(WHOLE["perf"]), 997):
        path.write_bytes(WHOLE["perf"][:cut])
        with open_trace(str(path)) as trace:
            try:
                part = [row for batch in trace.batches for row in batch.ranges[["start", "end", "time"]].tolist()]
            except InputError:
                part = []
        assert part == whole[: len(part)]
