"""The picture of several links: its words, its bars, and that it is the same file every time."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.errors import UsageError
from prologue_bench.report.links_plot import Bar, draw, save_bars

BARS = (Bar("stock", 581.7, 31.9), Bar("no ftrace_init", 0.0, 31.9), Bar("caf\u00e9 $x^2$", 7.4, 23.7))


def test_every_bar_has_its_name_and_its_numbers() -> None:
    (axes,) = draw("6.12.117, 9,999 sites", BARS).axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["stock", "no ftrace_init", "caf\\xe9 $x^2$"]
    assert [text.get_text() for text in axes.texts] == ["581.7 + 31.9", "0.0 + 31.9", "7.4 + 23.7"]
    widths = [bar.get_extents().width for bar in axes.patches]
    assert [width / widths[0] for width in widths] == pytest.approx(
        [number / 581.7 for number in (581.7, 0.0, 7.4, 31.9, 31.9, 23.7)]
    )  # fmt: skip
    assert axes.get_xlim()[0] == 0
    assert axes.get_xlim()[1] > 613.6


@pytest.mark.thorough
def test_the_same_picture_is_the_same_file(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        save_bars("title", BARS, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    with pytest.raises(UsageError, match="a picture ends in"):
        save_bars("title", BARS, tmp_path / "c.txt")
