"""What a reader may choose of a picture: title, size, dark, without notes."""

from __future__ import annotations

import struct
from pathlib import Path
from xml.etree import ElementTree

import pytest

from prologue.cli.main import main
from tests.support.result_sets import Made, make
from tests.support.tool import Tool


def plot(out: Path, *more: str, results: str = "example:2019-a57") -> Path:
    assert main(["bench", "plot", results, "-o", str(out), *more]) == 0
    return out


@pytest.mark.thorough
def test_size_in_pixels(tmp_path: Path) -> None:
    head = plot(tmp_path / "a.png", "--size", "1600x700").read_bytes()[:24]
    assert struct.unpack(">II", head[16:]) == (1600, 700)


@pytest.mark.thorough
def test_text_is_text(tmp_path: Path) -> None:
    text = plot(tmp_path / "a.svg", "--title", "An <odd> $title_").read_text()
    assert ">An &lt;odd&gt; $title_<" in text
    assert ">hackbench: seconds, lower is better<" in text
    assert "posted to the arm64 kernel list" in text


def test_a_title_of_any_bytes(tmp_path: Path) -> None:
    """Arguments need not be UTF-8, and XML cannot have control characters; lines stay lines."""
    text = plot(tmp_path / "a.svg", "--title", "odd \x1b\udcff\ntitle").read_text()
    assert all(line in text for line in (r">odd \x1b\udcff<", ">title<"))
    ElementTree.fromstring(text)  # noqa: S314 - our own


@pytest.mark.thorough
def test_dark_and_without_notes(tmp_path: Path) -> None:
    text = plot(tmp_path / "a.svg", "--dark", "--no-notes").read_text()
    assert "posted to the arm64 kernel list" not in text
    assert "#12161b" in text
    assert "#12161b" not in plot(tmp_path / "b.svg").read_text()


def test_smoke_evidence_has_no_empty_half(tmp_path: Path) -> None:
    make(tmp_path / "set", Made(evidence="smoke"))
    text = plot(tmp_path / "a.svg", results=str(tmp_path / "set")).read_text()
    assert 'id="axes_1"' in text
    assert 'id="axes_2"' not in text


@pytest.mark.parametrize("size", ["1600", "0x700", "99x700", "1600x700x2", "-1x700", "10001x700"])
def test_sizes_that_are_none(tmp_path: Path, size: str, tool: Tool) -> None:
    said = tool("bench", "plot", "example:2019-a57", "-o", tmp_path / "a.png", f"--size={size}", status=2).err
    assert "not WIDTHxHEIGHT with 100 to 10000 pixels each" in said


def test_a_choice_without_a_picture(tmp_path: Path, tool: Tool) -> None:
    for command, option in (
        (["live", "audit", "vmlinux", "core"], "--plot"),
        (["trace", "stats", "trace", "--vmlinux", "vmlinux"], "--plot"),
    ):
        assert f"are for the picture of {option} FILE" in tool(*command, "--dark", status=2).err
