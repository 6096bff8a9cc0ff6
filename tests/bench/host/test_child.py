"""Children, and threads that hear what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue_bench.host.child import run_lines
from tests.support.processes import until_gone


def test_one_who_cannot_hear_on_ends_the_command(tmp_path: Path) -> None:
    """A dump that QEMU refused, for one: nobody is left to end the machine, and its time would have to pass."""
    path, heard = tmp_path / "pid", []

    def hear(line: str) -> None:
        heard.append(line)
        raise ZeroDivisionError(line)

    with pytest.raises(ZeroDivisionError, match=r"^one$"):
        run_lines(["sh", "-c", f"sleep 1000 & echo $! >{path}; echo one; echo two; wait"], 600, hear)
    assert heard == ["one"]
    assert until_gone(int(path.read_text()))
