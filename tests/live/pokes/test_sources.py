"""Whatever a user names as recorded writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.errors import InputError
from prologue.live.pokes.perf_data import read_perf_data, write_perf_data
from prologue.live.pokes.sources import read_any
from tests.live.pokes.made import recording_of, write_recording
from tests.perf.made import ARM64, X86
from tests.support.tool import Tool


def test_what_is_read(tmp_path: Path) -> None:
    ours = write_recording(tmp_path / "boot.writes", recording_of({"time": 1, "address": 0xFFFF800080010004, "new": 5}))
    assert read_any(ours).header.source == "a test"
    data = tmp_path / "recorded"
    data.mkdir()  # as perf record --kcore makes it
    write_perf_data(data / "data", ARM64)
    assert len(read_any(data).rows) == len(read_any(data / "data").rows) == 9


@pytest.mark.parametrize("content", [b"", b"\x7fELF\0\0\0\0", b"a text\n", b"PERFILE2", b"\xff\xfe text\n"])
def test_what_is_not(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "some"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_any(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_perf_data_of_recorded_writes(tmp_path: Path, tool: Tool) -> None:
    recorded = recording_of({"time": 7, "cpu": 1, "address": 0xFFFF800080010004, "old": 1, "new": 5})
    ours, out = write_recording(tmp_path / "boot.writes", recorded), tmp_path / "perf.data"
    assert "1 text poke, 1 word; times are instructions, not ns" in tool("writes", "perf", ours, "-o", out).out
    (poke,) = read_perf_data(out).pokes
    assert (poke.address, poke.old, poke.new) == (0xFFFF800080010004, b"\1\0\0\0", b"\5\0\0\0")
    assert (poke.time, poke.cpu) == (7, 1)
    said = tool("writes", "perf", ours, "-o", out, "--json").json
    assert (said["schema"], said["text_pokes"], said["clock"]) == ("prologue.live-perf/1", 1, "instructions")
    assert said["within"] is None


def test_perf_data_that_cannot_be_made(tmp_path: Path, tool: Tool) -> None:
    x86 = tmp_path / "perf.data"
    write_perf_data(x86, X86)
    before = x86.read_bytes()
    assert "recorded on x86_64" in tool("writes", "perf", x86, "-o", tmp_path / "out", status=2).err
    assert "also an input" in tool("writes", "perf", x86, "-o", x86, status=2).err
    assert x86.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == [x86]
