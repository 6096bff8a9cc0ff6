"""Exact counts of several links: tables and pictures say the same of links that differ, and of links that lack one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from prologue_bench.analysis.compare import NO_LINK, compare
from prologue_bench.analysis.sources import open_results
from prologue_bench.results.store import read_results
from tests.bench.report.drawn import draw, rectangles
from tests.support.result_sets import BASE, BUILD, make_exact, write
from tests.support.tool import Tool


def on_link(directory: Path, number: int, counts: dict[str, int], lost: str | None = None) -> None:
    """A result set of exact counts on one link; all boots of the variant ``lost`` are void."""
    results = read_results(make_exact(directory / f"link-{number:02}", counts))
    kernel = MappingProxyType({**results.campaign.kernel, "link": f"link-{number:02}", "build_id": f"{number:040x}"})
    recorded = [
        replace(
            boot,
            started=boot.started.replace("2026", str(2026 + number)),
            readback=None,
            void="lost" if boot.variant == lost else None,
        )
        for boot in results.boots
    ]
    write(directory / f"link-{number:02}", replace(results.campaign, kernel=kernel), recorded)


def said_of_build(directory: Path, tool: Tool) -> tuple[str, list[str]]:
    """Return the row of the table, and what the picture says beside its bars."""
    (row,) = [line for line in tool("bench", "compare", directory).out.splitlines() if line.startswith(BUILD)]
    from matplotlib.text import Annotation

    figure = draw(compare(open_results([str(directory)])))
    texts = [text for axes in figure.findobj(Annotation) for text in [axes.get_text()] if text and text != "base"]
    return row, texts


def test_links_that_differ_are_equal_nowhere(tmp_path: Path, tool: Tool) -> None:
    on_link(tmp_path / "over", 1, {BASE: 1000, BUILD: 1050})
    on_link(tmp_path / "over", 2, {BASE: 1100, BUILD: 1170})
    row, texts = said_of_build(tmp_path / "over", tool)
    assert row.split("  ")[-1].strip() == "+50 to +70"
    assert "+50 to +70" in texts
    assert not any("equal" in text for text in texts)


def test_a_table_of_links_has_whole_counts(tmp_path: Path, tool: Tool) -> None:
    on_link(tmp_path / "over", 1, {BASE: 111927179, BUILD: 111920351})
    on_link(tmp_path / "over", 2, {BASE: 111946348, BUILD: 111939527})
    assert {"111920351", "111939527"} <= {*tool("bench", "table", tmp_path / "over").out.split()}


def bars_of(directory: Path) -> list[float]:
    figure = draw(compare(open_results([str(directory)])))
    bars = [bar for axes in figure.axes for bar in rectangles(axes)]
    return [bar.get_width() for bar in bars if bar.get_height() == 0.28]


def test_a_bar_is_of_the_links_that_have_both(tmp_path: Path, tool: Tool) -> None:
    """Of the link with many instructions the variant has no boot: it is 5% more on the other, not 90% less."""
    on_link(tmp_path / "over", 1, {BASE: 1000, BUILD: 1050})
    on_link(tmp_path / "over", 2, {BASE: 19000, BUILD: 19050}, lost=BUILD)
    row, texts = said_of_build(tmp_path / "over", tool)
    assert row.endswith("+50")
    assert "+50 (+5%)" in texts
    assert bars_of(tmp_path / "over") == pytest.approx([100, 105])


def test_kernels_are_of_one_link_each(tmp_path: Path, tool: Tool) -> None:
    for number in (1, 2):
        on_link(tmp_path / "over", number, {BASE: 1000 + number, BUILD: 1050})
    alone = make_exact(tmp_path / "alone", {BASE: 1000, BUILD: 1050})
    printed = tool("bench", "compare", "--kernels", tmp_path / "over", alone, status=2)
    assert "over: is of 2 links: name the result set of each, such as link-01" in printed.err


def test_a_base_of_0_on_the_links_that_have_both_has_no_shares(tmp_path: Path, tool: Tool) -> None:
    on_link(tmp_path / "over", 1, {BASE: 0, BUILD: 50})
    on_link(tmp_path / "over", 2, {BASE: 1000, BUILD: 1050}, lost=BUILD)
    row, texts = said_of_build(tmp_path / "over", tool)
    assert row.endswith("+50")
    assert "+50" in texts
    assert bars_of(tmp_path / "over") == [100, 0]


def test_a_variant_without_a_base_on_its_links_is_compared_with_nothing(tmp_path: Path, tool: Tool) -> None:
    counts = {BASE: 1000, BUILD: 1050}
    on_link(tmp_path / "over", 1, counts, lost=BUILD)
    on_link(tmp_path / "over", 2, counts, lost=BASE)
    ((comparison,),) = [part.comparisons for part in compare(open_results([str(tmp_path / "over")])).workloads]
    assert (comparison.exact, comparison.difference, dict(comparison.differences)) == (True, None, {})
    row, texts = said_of_build(tmp_path / "over", tool)
    assert row.endswith(NO_LINK)
    assert NO_LINK in texts
    assert bars_of(tmp_path / "over") == [100, 0]
