"""The example that has memory: what docs/commands.md says of it is what the audit says."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.support.tool import Tool


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "prologue" / "examples"


def test_hooked_has_two_words_of_an_intruder(tool: Tool) -> None:
    found = tool("live", "audit", "example:hooked", "--json", status=1).json["findings"]
    assert {(each["code"], f"{each['symbol']}+{each['symbol_offset']:#x}") for each in found} == {
        ("PL502", "rw_verify_area+0x4"), ("PL503", "ksys_write+0xc"),
    }  # fmt: skip


def test_the_memory_is_the_same_each_time(cache: Path) -> None:
    memories = []
    for _ in range(2):
        main(["live", "audit", "example:hooked"])
        memories.append((cache / "hooked" / "memory").read_bytes())
    assert memories[0] == memories[1]


def test_an_example_without_memory(tool: Tool) -> None:
    printed = tool("live", "audit", "example:good", status=2)
    assert printed.err == "prologue: example:good has no memory: take example:hooked\n"
