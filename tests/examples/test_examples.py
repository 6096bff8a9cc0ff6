"""What docs/commands.md says of each example is what the commands say."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.examples.place import example_names, place_example
from tests.support.tool import Tool


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "prologue" / "examples"


def findings(tool: Tool, *arguments: str) -> set[tuple[str, str]]:
    """Rule and place of each root cause."""
    found = tool(*arguments, "--json", status=1).json["findings"]
    return {(f["code"], f"{f['symbol']}+{f['symbol_offset']:#x}") for f in found if not f.get("follows_from")}


def test_good_can_be_released(tool: Tool) -> None:
    assert "1 file: clean (7 sites, processed, native)" in tool("verify", "example:good", "--release").out


@pytest.mark.parametrize("name", example_names())
def test_the_image_of_an_example_is_read(name: str, tmp_path: Path, tool: Tool) -> None:
    image = tmp_path / "Image"
    assert main(["image", f"example:{name}", "-o", str(image)]) == 0
    said = tool("verify", f"example:{name}", "--image", image, status=None)
    assert "PL404" not in said.out
    assert "compared with the boot file" in said.out


def test_broken_has_three_faults(tool: Tool) -> None:
    assert findings(tool, "verify", "example:broken") >= {
        ("PL202", "rw_verify_area+0x0"), ("PL302", "ksys_read+0x1c"), ("PL304", "write_null+0x4"),
    }  # fmt: skip
    assert "2 fatal, 1 error, 1 more that follows from them" in tool("verify", "example:broken", status=1).out


def test_hooked_is_clean_as_a_file() -> None:
    assert main(["verify", "example:hooked"]) == 0


def test_the_files_are_the_same_each_time(cache: Path) -> None:
    placed = []
    for _ in range(2):
        for name in example_names():
            place_example(f"example:{name}")
        placed.append({path: path.read_bytes() for path in cache.rglob("*") if path.is_file()})
    assert placed[0] == placed[1]
    assert {path.relative_to(cache).as_posix() for path in placed[0]} == {
        "broken/vmlinux", "good/trace", "good/vmlinux", "hooked/trace", "hooked/vmlinux",
    }  # fmt: skip


REFUSED = {
    "verify example:brokn": "example:brokn: no such example: did you mean broken?",
    "verify example:1": "there are example:broken, example:good, example:hooked",
    "live audit example:good": "example:good has no memory: take example:hooked",
    "live audit example:hooked vmcore": "example:hooked stands for VMLINUX and SOURCE: name no SOURCE",
    "trace check example:broken": "example:broken has no trace: take example:good or example:hooked",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_no_example(words: str, tool: Tool) -> None:
    assert REFUSED[words] in tool(*words.split(), status=2).err


def test_an_audit_of_a_file_still_needs_its_memory(tool: Tool) -> None:
    assert "required: SOURCE" in tool("live", "audit", "vmlinux", status=2).err


def test_a_cache_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert "cannot be created: Not a directory; set XDG_CACHE_HOME" in tool("verify", "example:good", status=2).err
