"""Pictures: that they are made, whole or not at all. What they look like was looked at."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from prologue.cli.main import main
from prologue_bench.analysis.compare import compare
from prologue_bench.report.plots import draw
from prologue_bench.results.model import ResultSet
from tests.support.result_sets import BASE, BUILD, HACKBENCH, MESSAGING, Made, boots, campaign, make, make_exact

Said = pytest.CaptureFixture[str]


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_same_picture_is_the_same_file(tmp_path: Path, suffix: str, capsys: Said) -> None:
    one, other = tmp_path / f"one.{suffix}", tmp_path / f"other.{suffix}"
    for path in (one, other):
        assert main(["bench", "plot", "example:2019-a57", "-o", str(path)]) == 0
    assert one.read_bytes() == other.read_bytes()
    assert capsys.readouterr().out == f"{one}: written\n{other}: written\n"
    assert {path.name for path in tmp_path.iterdir()} == {one.name, other.name}
    if suffix == "png":
        assert one.read_bytes().startswith(b"\x89PNG")
    else:
        assert ET.parse(one).getroot().tag.endswith("svg")  # noqa: S314  # we wrote it


@pytest.mark.parametrize(
    "made",
    [
        Made(workloads=(HACKBENCH, MESSAGING)),
        Made(evidence="smoke"),
        Made(pairs=1, runs=1),
        Made(effects={BUILD: 0.5}, control=False),
    ],
)
def test_every_kind_of_campaign(tmp_path: Path, made: Made) -> None:
    make(tmp_path / "set", made)
    assert main(["bench", "plot", str(tmp_path / "set"), "-o", str(tmp_path / "a.PNG")]) == 0


def test_exact(tmp_path: Path) -> None:
    make_exact(tmp_path / "set", {BASE: 4103322, BUILD: 4103322})
    assert main(["bench", "plot", str(tmp_path / "set"), "-o", str(tmp_path / "a.svg")]) == 0


def test_the_margin_of_the_legend_is_exact() -> None:
    made = Made()
    figure = draw(compare(ResultSet(campaign=campaign(made), boots=tuple(boots(made))), 0.0125))
    labels = [text.get_text() for part in figure.subfigs for legend in part.legends for text in legend.get_texts()]
    assert "margin +-1.25% (wider than shown)" in labels


def test_every_sample_is_a_point() -> None:
    made = Made(pairs=7, runs=9)
    left = draw(compare(ResultSet(campaign=campaign(made), boots=tuple(boots(made))))).axes[0]
    points = [line for line in left.lines if line.get_marker() == "o" and line.get_markeredgewidth() == 0]
    assert [np.size(line.get_xdata()) for line in points] == [63] * 3


@pytest.mark.filterwarnings("error")
def test_no_spread(tmp_path: Path) -> None:
    table = {"label": "w", "unit": "s", "direction": "lower", "samples": {"a": [5, 5], "b": [5, 5], "c": [5, 5]}}
    (tmp_path / "t.json").write_text(json.dumps(table))
    assert main(["bench", "plot", str(tmp_path / "t.json"), "-o", str(tmp_path / "a.png")]) == 0


def test_labels_are_no_formulas(tmp_path: Path) -> None:
    table = {"label": "$x_{", "unit": "$", "direction": "lower", "samples": {"$\\frac": [1, 2, 3], "_b": [1, 2, 4]}}
    (tmp_path / "t.json").write_text(json.dumps(table))
    assert main(["bench", "plot", str(tmp_path / "t.json"), "-o", str(tmp_path / "a.png")]) == 0


def test_refusals(tmp_path: Path, capsys: Said) -> None:
    assert main(["bench", "plot", "example:2019-a57", "-o", str(tmp_path / "a.pdf")]) == 2
    assert "must end in .png or .svg" in capsys.readouterr().err
    assert main(["bench", "plot", "example:2019-a57", "-o", str(tmp_path / "none" / "a.png")]) == 2
    assert "a.png: cannot be created: No such file or directory" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
