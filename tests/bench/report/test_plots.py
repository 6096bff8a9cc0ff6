"""Pictures: that they are made, whole or not at all. What they look like was looked at."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from prologue.cli.main import main
from prologue.report.pictures import PictureLook
from prologue_bench.analysis.compare import Report, compare
from prologue_bench.analysis.sources import open_results
from prologue_bench.results.model import ResultSet
from tests.bench.report.drawn import colours_of, draw, rectangles
from tests.support.cases import one_quick
from tests.support.result_sets import BASE, BUILD, HACKBENCH, MESSAGING, Made, boots, campaign, make, make_exact
from tests.support.tool import Tool

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@pytest.mark.thorough
@pytest.mark.parametrize("suffix", one_quick("svg", "png", "pdf"))
def test_the_same_picture_is_the_same_file(tmp_path: Path, suffix: str, tool: Tool) -> None:
    one, other = tmp_path / f"one.{suffix}", tmp_path / f"other.{suffix}"
    for path in (one, other):
        assert tool("bench", "plot", "example:2019-a57", "-o", path).out == f"{path}: written\n"
    assert one.read_bytes() == other.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {one.name, other.name}
    if suffix == "png":
        assert one.read_bytes().startswith(b"\x89PNG")
    elif suffix == "pdf":
        assert one.read_bytes().startswith(b"%PDF")
    else:
        assert ET.parse(one).getroot().tag.endswith("svg")  # noqa: S314  # we wrote it


@pytest.mark.thorough
@pytest.mark.parametrize(
    "made",
    one_quick(
        Made(workloads=(HACKBENCH, MESSAGING)),
        Made(evidence="smoke"),
        Made(pairs=1, runs=1),
        Made(effects={BUILD: 0.5}, control=False),
    ),
)
def test_every_kind_of_campaign(tmp_path: Path, made: Made) -> None:
    make(tmp_path / "set", made)
    assert main(["bench", "plot", str(tmp_path / "set"), "-o", str(tmp_path / "a.PNG")]) == 0


@pytest.mark.thorough
def test_the_margin_of_the_legend_is_exact() -> None:
    made = Made()
    figure = draw(compare(ResultSet(campaign=campaign(made), boots=tuple(boots(made))), 0.0125))
    labels = [text.get_text() for part in figure.subfigs for legend in part.legends for text in legend.get_texts()]
    assert "margin \N{PLUS-MINUS SIGN}1.25% (wider than shown)" in labels


@pytest.mark.thorough
def test_every_sample_is_a_point() -> None:
    made = Made(pairs=7, runs=9)
    left = draw(compare(ResultSet(campaign=campaign(made), boots=tuple(boots(made))))).axes[0]
    points = [line for line in left.lines if line.get_marker() == "o" and line.get_markeredgewidth() == 0]
    assert [np.size(line.get_xdata()) for line in points] == [63] * 3


@pytest.mark.thorough
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("label", "unit", "samples"),
    [("w", "s", {"a": [5, 5], "b": [5, 5], "c": [5, 5]}), ("$x_{", "$", {"$\\frac": [1, 2, 3], "_b": [1, 2, 4]})],
    ids=["no spread", "labels that are no formulas"],
)
def test_odd_tables(label: str, unit: str, samples: dict[str, list[int]], tmp_path: Path) -> None:
    table = {"label": label, "unit": unit, "direction": "lower", "samples": samples}
    (tmp_path / "t.json").write_text(json.dumps(table))
    assert main(["bench", "plot", str(tmp_path / "t.json"), "-o", str(tmp_path / "a.png")]) == 0


@pytest.mark.thorough
def test_refusals(tmp_path: Path, tool: Tool) -> None:
    printed = tool("bench", "plot", "example:2019-a57", "-o", tmp_path / "a.jpg", status=2)
    assert "a picture ends in .png, .svg, .pdf" in printed.err
    printed = tool("bench", "plot", "example:2019-a57", "-o", tmp_path / "none" / "a.png", status=2)
    assert "a.png: cannot be created: No such file or directory" in printed.err
    assert not list(tmp_path.iterdir())


def report_of(made: Made) -> Report:
    return compare(ResultSet(campaign=campaign(made), boots=tuple(boots(made))))


def words_of(figure: Figure) -> str:
    texts = [text.get_text() for part in figure.subfigs for text in part.texts]
    texts += [text.get_text() for axes in figure.axes for text in (*axes.texts, axes.xaxis.label)]
    return "\n".join(texts)


@pytest.mark.thorough
def test_signs_p_and_source() -> None:
    said = words_of(draw(report_of(Made(effects={BUILD: 0.0}))))
    assert "within \N{PLUS-MINUS SIGN}1%" in said
    assert "faster   \N{LEFTWARDS ARROW}   change against nop;nop, %   \N{RIGHTWARDS ARROW}   slower" in said
    assert "+-" not in said
    assert "->" not in said
    said = words_of(draw(compare(open_results(["example:2019-a57"]))))
    assert "hackbench: mov x9,lr;nop: different, 0.9% faster (p = 0.0006)" in said
    assert "source: posted to the arm64 kernel list in 2019" in said


def test_a_variant_has_one_colour(tmp_path: Path) -> None:
    """Whichever other variants are drawn, and whether their kinds are known or only their labels."""
    table = {"label": "w", "unit": "s", "direction": "lower"}
    seen: dict[str, set[str]] = {}
    for labels in (("boot", "build"), ("nop-nop", "build", "mine"), ("mine", "boot", "nop-nop"), ("build", "boot")):
        path = tmp_path / "t.json"
        path.write_text(json.dumps({**table, "samples": {label: [1, 2, 3] for label in labels}}))
        for label, colour in colours_of(compare(open_results([str(path)]))).items():
            seen.setdefault(label, set()).add(colour)
    made = colours_of(report_of(Made()))
    assert len(set(made.values())) == len(made) == 3
    seen["nop-nop"].add(made[BASE])
    seen["build"].add(made[BUILD])
    assert {label: len(colours) for label, colours in seen.items()} == {"boot": 1, "build": 1, "nop-nop": 1, "mine": 1}
    assert len({colour for colours in seen.values() for colour in colours}) == 4


@pytest.mark.thorough
def test_one_unit_has_one_scale() -> None:
    other = replace(HACKBENCH, name="hackbench, pipes")
    left, right, below, below_right = draw(report_of(Made(workloads=(HACKBENCH, other), effects={BUILD: 0.02}))).axes
    spans = [np.ptp(axes.get_xlim()) for axes in (left, below)]
    assert spans[0] == pytest.approx(spans[1])
    assert right.get_xlim() == below_right.get_xlim()
    assert "of its own" not in left.get_xlabel()


@pytest.mark.thorough
def test_words_are_not_cut_off() -> None:
    """Long labels, and an interval at the edge."""
    long = replace(HACKBENCH, name="hackbench with a very long name " * 4)
    figure = draw(report_of(Made(workloads=(long,), effects={BUILD: 0.5}, control=False)))
    figure.draw_without_rendering()
    room = figure.bbox
    for axes in figure.axes:
        for text in (*axes.texts, axes.xaxis.label, *axes.get_yticklabels(), axes.title, axes._left_title):  # type: ignore[attr-defined]  # where loc="left" is
            box = text.get_window_extent()
            assert box.x0 >= room.x0, text
            assert box.x1 <= room.x1, text


@pytest.mark.parametrize("size", [(1600, 900), (800, 1100), (700, 1400)])
def test_no_word_is_lost_in_a_picture_of_another_size(size: tuple[int, int]) -> None:
    report = report_of(Made(workloads=(HACKBENCH, MESSAGING), effects={BUILD: 0.02}))
    figure = draw(report, PictureLook(size=size))
    figure.draw_without_rendering()
    room, (upper, lower) = figure.bbox, figure.subfigs
    (legend,), (notes,) = lower.legends, lower.texts
    labels = [axes.xaxis.label for axes in upper.axes]
    for box in (part.get_window_extent() for part in (legend, notes, *labels)):
        assert room.x0 <= box.x0
        assert box.x1 <= room.x1
        assert box.y0 >= room.y0
    assert notes.get_window_extent().y1 <= legend.get_window_extent().y0 + 1
    whole = draw(report).subfigs[1].texts[0].get_text()
    assert notes.get_text().split() == whole.split()


def test_a_picture_without_room_for_its_sentences(tmp_path: Path, tool: Tool) -> None:
    words = ["bench", "plot", str(make(tmp_path / "set")), "-o", str(tmp_path / "a.png"), "--size", "900x300"]
    printed = tool(*words, status=2)
    assert re.search(r"--size: no room for \d+ lines of sentences: more pixels, or --no-notes", printed.err)
    for size in ("900x300", "500x300"):
        assert main([*words[:-1], size, "--no-notes"]) == 0


@pytest.mark.thorough
def test_exact_pictures_of_little_and_of_much_look_different(tmp_path: Path) -> None:
    widths = []
    for percent in (2, 87):
        path = make_exact(tmp_path / str(percent), {BASE: 4_000_000, BUILD: 40_000 * (100 - percent)})
        figure = draw(compare(open_results([str(path)])))
        left, right = figure.axes
        low, high = right.get_xlim()
        widths.append([patch.get_width() / (high - low) for patch in rectangles(right)])
        assert left.get_xlim()[0] == 0
        assert f"-{40_000 * percent:,} (-{percent}%)" in words_of(figure)
    (base, little), (same, much) = widths
    assert base == same > little > 0.9 * base
    assert much == pytest.approx(0.13 * base)


@pytest.mark.thorough
def test_an_exact_base_of_nothing_has_no_percentages(tmp_path: Path) -> None:
    """Kernels whose sites stay NOPs write no words."""
    figure = draw(compare(open_results([str(make_exact(tmp_path / "words", {BASE: 0, BUILD: 13_722}))])))
    said = words_of(figure)
    assert "+13,722" in said
    assert "%" not in said
    assert "instructions (exact)" in said
    _, right = figure.axes
    bars = [patch.get_width() for patch in rectangles(right)]
    assert bars == [0, 13_722]
    assert list(right.get_xlim()) == pytest.approx([0, 1.05 * 13_722])
    draw(compare(open_results([str(make_exact(tmp_path / "none", {BASE: 0, BUILD: 0}))])))
