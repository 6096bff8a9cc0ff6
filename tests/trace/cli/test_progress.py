"""Progress of decoding, only on a terminal whose other stream goes elsewhere, and of writing."""

from __future__ import annotations

import io
import itertools
import time
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.trace.cli.progress import progress_on_terminal
from prologue.trace.readers.recording import RecordingHeader
from tests.support.cs_recording import ROUND
from tests.trace.made import KERNEL, recording


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_no_terminal_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert progress_on_terminal() is None
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setattr("sys.stdout", Terminal())
    assert progress_on_terminal() is None


def test_share_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, clock = Terminal(), iter([0.0, 0.1, 2.0, 2.1, 8.0])
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    show = progress_on_terminal()
    assert show is not None
    for done in (0, 25, 26, 100):
        show(done, 100)
    assert terminal.getvalue() == "\r\x1b[Kdecoding: 25% of 100 bytes, 6 s left\r\x1b[K"


def test_writing_shows_records_and_the_time_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both streams are terminals: nothing is printed before all is written."""
    rows = [{"cpu": k % 2, "level": 1, "start": start, "count": count} for start, count in ROUND for k in range(10_000)]
    (tmp_path / "recording").write_bytes(recording(rows, RecordingHeader(slide=0)))
    vmlinux, terminal, clock = KERNEL.write(tmp_path / "vmlinux"), Terminal(), itertools.count()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    command = ["trace", "etm", str(tmp_path / "recording"), "--vmlinux", str(vmlinux), "-o", str(tmp_path / "out")]
    assert main([*command, "--quiet"]) == 0
    assert terminal.getvalue() == ""
    clock = itertools.count()
    assert main([*command[:-1], str(tmp_path / "again")]) == 0
    assert terminal.getvalue() == (
        "\r\x1b[Kwriting: 27% of 60,000 records, 3 s left"
        "\r\x1b[Kwriting: 50% of 60,000 records, 2 s left"
        "\r\x1b[Kwriting: 77% of 60,000 records, 1 s left\r\x1b[K"
    )
