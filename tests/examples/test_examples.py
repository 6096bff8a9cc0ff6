"""What docs/commands.md says of each example is what the commands say."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.examples.place import example_names, place_example
from tests.support.needs import needs_tools

Said = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "prologue" / "examples"


def findings(capsys: Said, *arguments: str) -> set[tuple[str, str]]:
    """Rule and place of each root cause."""
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    return {(f["code"], f"{f['symbol']}+{f['symbol_offset']:#x}") for f in found if not f.get("follows_from")}


def test_good_can_be_released(capsys: Said) -> None:
    assert main(["verify", "example:good", "--release"]) == 0
    assert "1 file: clean (7 sites, processed, native)" in capsys.readouterr().out


@pytest.mark.parametrize("name", example_names())
def test_the_image_of_an_example_is_read(name: str, tmp_path: Path, capsys: Said) -> None:
    image = tmp_path / "Image"
    assert main(["image", f"example:{name}", "-o", str(image)]) == 0
    capsys.readouterr()
    main(["verify", f"example:{name}", "--image", str(image)])
    said = capsys.readouterr()
    assert "PL404" not in said.out
    assert "compared with the boot file" in said.out


def test_broken_has_three_faults(capsys: Said) -> None:
    assert findings(capsys, "verify", "example:broken") >= {
        ("PL202", "rw_verify_area+0x0"), ("PL302", "ksys_read+0x1c"), ("PL304", "write_null+0x4"),
    }  # fmt: skip
    assert main(["verify", "example:broken"]) == 1
    assert "2 fatal, 1 error, 1 more that follows from them" in capsys.readouterr().out


def test_hooked_is_clean_as_a_file() -> None:
    assert main(["verify", "example:hooked"]) == 0


@pytest.mark.parametrize("name", example_names())
def test_other_tools_read_the_files(name: str, cache: Path) -> None:
    needs_tools("aarch64-linux-gnu-objdump")
    assert main(["scan", f"example:{name}"]) == 0
    command = ["aarch64-linux-gnu-objdump", "-d", "--disassemble=vfs_read", str(cache / name / "vmlinux")]
    assert "<rw_verify_area>" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


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
    "trace stats example:good perf.data": "example:good is a trace with its kernel: name no other TRACE",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_no_example(words: str, capsys: Said) -> None:
    assert main(words.split()) == 2
    assert REFUSED[words] in capsys.readouterr().err


def test_an_audit_of_a_file_still_needs_its_memory(capsys: Said) -> None:
    with pytest.raises(SystemExit) as done:
        main(["live", "audit", "vmlinux"])
    assert done.value.code == 2
    assert "required: SOURCE" in capsys.readouterr().err


def test_a_cache_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert main(["verify", "example:good"]) == 2
    assert "cannot be created: Not a directory; set XDG_CACHE_HOME" in capsys.readouterr().err
