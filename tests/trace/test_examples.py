"""Examples that have a trace: what docs/commands.md says of them is what the commands say."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.support.tool import Tool


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "prologue" / "examples"


def test_good_ran_as_its_file_says(tool: Tool) -> None:
    assert tool("trace", "check", "example:good").out == "21 steps, none impossible\n"


def test_hooked_was_traced_with_other_text(tool: Tool, cache: Path) -> None:
    said = tool("trace", "check", "example:hooked", status=1).out.splitlines()
    assert [line.partition(" (")[0] for line in said] == [
        "image stale at rw_verify_area+0x4", "image stale at vfs_read+0x4", "2 words of the image cannot be what ran",
    ]  # fmt: skip
    main(["live", "audit", "example:hooked"])
    memory = str(cache / "hooked" / "memory")
    assert main(["trace", "check", "example:hooked", "--memory", memory]) == 0


@pytest.mark.parametrize("command", ["disasm", "stats"])
def test_a_trace_can_be_looked_at(command: str, tool: Tool) -> None:
    assert "rw_verify_area" in tool("trace", command, "example:good").out


def test_an_example_without_a_trace(tool: Tool) -> None:
    printed = tool("trace", "check", "example:broken", status=2)
    assert printed.err == "prologue: example:broken has no trace: take example:good or example:hooked\n"
