"""Copies that go on while something else is done: waited for, given up, or refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prologue.errors import OutputError
from prologue.patching.copying import copied_meanwhile, copy_file


def test_a_copy_is_there_when_it_was_waited_for(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(os.urandom(1 << 20))
    with copied_meanwhile(source, target) as wait:
        wait()
        assert target.read_bytes() == source.read_bytes()
    assert target.read_bytes() == source.read_bytes()


def test_who_fails_meanwhile_does_not_wait(tmp_path: Path) -> None:
    """The source is a pipe that nobody writes to: a copy of it would never end."""
    source = tmp_path / "pipe"
    os.mkfifo(source)
    with pytest.raises(ZeroDivisionError), copied_meanwhile(source, tmp_path / "target"):
        raise ZeroDivisionError


def test_what_cannot_be_copied_is_said_where_it_is_waited_for(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("x")
    for target in (tmp_path / "no" / "target", Path("/dev/full")):
        with pytest.raises(OutputError, match="nothing was left behind"):
            copy_file(source, target)


def test_a_copy_without_cp_names_cp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own reason would read as one of the file: `OUT: cannot be written: No such file or directory`."""
    source = tmp_path / "source"
    source.write_text("x")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OutputError, match="source: cannot be copied without cp: No such file"):
        copy_file(source, tmp_path / "target")
