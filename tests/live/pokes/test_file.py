"""A recording's file: what is written is read, and damage is one clear error."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prologue.errors import InputError, OutputError
from prologue.live.pokes.recording import Function, Header, Loss, Maintenance, Trailer, empty_rows, maintenance_steps
from prologue.live.pokes.recording_file import MAGIC, read_recording, recording_file
from tests.live.pokes.made import ORIGIN, recording_of, write_recording

ENDING = Trailer(
    slide=0x1000,
    functions=(
        Function(start=0x8000, end=0x8010, name="f"),
        Function(start=0, end=4, name="g", owner="m", since=3, until=5),
    ),
    lost=(Loss("events", None), Loss("pages", 3)),
    notes=("text",),
    ctr=0x8444C004,
)


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = recording_of(
        {"time": 1, "address": 0x8000, "old": 1, "new": 2, "callers": (5, 6)},
        {"time": 1, "address": 0x8004, "cpu": 1, "maintenance": 0x62321},
        trailer=ENDING,
    )
    read = read_recording(write_recording(tmp_path / "w", made))
    assert read.header == ORIGIN
    assert read.trailer == ENDING
    assert list(map(str, read.rows)) == list(map(str, made.rows))
    assert (tmp_path / "w").stat().st_mode & 0o777 == 0o600


def test_many_rows_are_written_as_they_come(tmp_path: Path) -> None:
    rows = empty_rows(100_000)
    rows["time"] = np.arange(len(rows))
    with recording_file(tmp_path / "w", ORIGIN) as writer:
        for start in range(0, len(rows), 30_000):
            writer.add(rows[start : start + 30_000])
        writer.end(Trailer())
    read = read_recording(tmp_path / "w").rows
    assert read[read != rows].tolist() == []
    assert len(read) == len(rows)


def test_steps_come_in_their_order() -> None:
    assert maintenance_steps(0x62321) == (
        Maintenance.DC,
        Maintenance.DSB,
        Maintenance.IC_IVAU,
        Maintenance.DSB,
        Maintenance.ISB,
    )
    assert maintenance_steps(0) == ()


def test_a_recording_that_was_not_ended_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="not ended"), recording_file(tmp_path / "w", ORIGIN):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"address": 2}], "not a multiple of 4"),
        ([{"time": 2}, {"time": 1}], "backwards"),
        ([{"flags": 1 << 30}], "flags"),
        ([{}, {"maintenance": 0xA1}], "maintenance"),
    ],
)
def test_rows_that_cannot_be(tmp_path: Path, rows: list[dict[str, int]], said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_recording(write_recording(tmp_path / "w", recording_of(*rows)))


@pytest.mark.parametrize("origin", [replace(ORIGIN, build_id="xy"), replace(ORIGIN, cpus=-1)])
def test_a_machine_that_cannot_be(tmp_path: Path, origin: Header) -> None:
    with pytest.raises(InputError, match="its header cannot be parsed"):
        read_recording(write_recording(tmp_path / "w", replace(recording_of({}), header=origin)))


def test_another_file(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(b"\x7fELF" * 8)
    with pytest.raises(InputError, match="is not a recording"):
        read_recording(tmp_path / "w")
    with pytest.raises(InputError, match="cannot be read"):
        read_recording(tmp_path / "absent")


@pytest.mark.thorough
def test_every_cut_and_every_damaged_byte_is_one_error(tmp_path: Path) -> None:
    path = write_recording(tmp_path / "w", recording_of({"address": 0x8000}, trailer=ENDING))
    whole = path.read_bytes()
    seed = random.Random(1)  # noqa: S311 - which bit is no secret
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"cut off|is not a recording|does not say what") as raised:
            read_recording(path)
        assert str(raised.value).startswith(f"{path}: ")
    for at in range(len(MAGIC), len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << seed.randrange(8)]) + whole[at + 1 :])
        with pytest.raises(InputError):
            read_recording(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(InputError, match="more after its end"):
        read_recording(path)
