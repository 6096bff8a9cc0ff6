"""Progress of decoding, only on a terminal whose other stream goes elsewhere."""

from __future__ import annotations

import io
import time

import pytest

from prologue.trace.cli.inputs import progress_on_terminal


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
