"""Several links: kernels of links in one table, and exact counts of links that differ, or of which one lacks some."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from prologue_bench.analysis.compare import NO_LINK, compare
from prologue_bench.analysis.sources import open_results
from prologue_bench.results.model import Variant, Workload
from prologue_bench.results.store import read_results
from prologue_bench.targets.icount import BOOT
from tests.bench.report.drawn import draw, rectangles
from tests.bench.report.test_reports import bench, check
from tests.support.result_sets import BASE, BUILD, HACKBENCH, Made, boots, campaign, make, make_exact, write
from tests.support.tool import Tool

# As wide as counts of a large kernel become.
SITES = 90_000
MOVED = 3_400_500  # instructions of relocation
COUNTS = {
    "stock": (
        812_345_678, 64_800_123, MOVED, 3 * SITES, SITES, 80_001, 82_002, SITES, SITES, 2 * SITES, 6 * SITES, 4 * SITES,
    ),
    "stock nop-nop": (747_600_042, 1, MOVED, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "rival": (755_100_777, 7_560_321, MOVED, 3 * SITES, SITES, 80_001, 82_001, SITES, 1, 0, 2, 1),
    "native": (750_000_999, 630_123, MOVED - 10 * SITES, 0, 0, 11, 1, 0, 0, 0, 1, 0),
}  # fmt: skip


def link(directory: Path, kinds: dict[str, tuple[int, ...]], **kernel: str) -> Path:
    """A result set of one link: the counts of each variant, and of a workload that is not compared."""
    measures = tuple(Workload(name, "boot", unit, "lower") for name, unit in BOOT.items())
    made = Made(pairs=2, runs=1, evidence="exact", workloads=(*measures, HACKBENCH), control=False)
    plan = campaign(made)
    facts = {"release": "6.12.107-prologue", "build_id": directory.name * 4, "layout": "4,2", **kernel}
    base, *_ = kinds
    plan = replace(
        plan, variants=tuple(Variant(kind, kind, "a" * 64, 0) for kind in kinds), base=base,
        kernel=MappingProxyType(facts),
    )  # fmt: skip
    blank = boots(made)
    recorded = []
    for k, (block, kind) in enumerate((block, kind) for block in range(2) for kind in kinds):
        counts = dict(zip((measure.name for measure in measures), map(float, kinds[kind]), strict=True))
        values = {name: (value,) for name, value in {**counts, HACKBENCH.name: 7.0}.items()}
        recorded.append(
            replace(
                blank[0], block=block, position=k % len(kinds), variant=kind, number=k + 1, readback=None,
                values=MappingProxyType(values), started=blank[0].started.replace(":00+", f":{k:02}+"),
            )
        )  # fmt: skip
    return write(directory, plan, recorded)


@pytest.fixture
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    link(tmp_path / "stock", {"boot": COUNTS["stock"], "nop-nop": COUNTS["stock nop-nop"]})
    link(tmp_path / "rival", {"boot": COUNTS["rival"]})
    link(tmp_path / "results" / "7", {"build": COUNTS["native"]})
    return tmp_path


WORDS = ("compare", "--kernels", "stock/", "rival", "native=results/7")


def test_one_table(links: Path, tool: Tool) -> None:
    check("links.txt", bench(tool, *WORDS))
    check("links.md", bench(tool, *WORDS, "--format", "markdown"))


def test_json_holds_every_count(links: Path, tool: Tool) -> None:
    document = json.loads(bench(tool, *WORDS, "--json"))
    assert (document["schema"], document["evidence"]) == ("prologue.bench-links/1", "exact")
    assert [measure["name"] for measure in document["measures"]] == list(BOOT)
    found = {kernel["label"]: tuple(kernel["counts"].values()) for kernel in document["kernels"]}
    assert found == COUNTS
    assert document["kernels"][-1]["build_id"] == "7777"


def test_what_cannot_be_compared(links: Path, tool: Tool) -> None:
    make(links / "timed")
    link(links / "older", {"boot": COUNTS["rival"]}, release="6.1.192", layout="2")
    differing = link(links / "differing", {"boot": COUNTS["rival"]})
    lines = (differing / "results.jsonl").read_text()
    (differing / "results.jsonl").write_text(lines.replace("7560321", "7560322", 1))
    for words, message in (
        (("stock",), "name two result sets or more"),
        (("stock", "x/../stock"), "two result sets are called 'stock'"),
        (("stock", "timed"), "timed: timing evidence: only exact counts"),
        (("stock", "older"), "stock and older cannot be compared: kernel release: 6.12.107-prologue and 6.1.192"),
        (("stock", "stock", "--margin", "2"), "exact counts, which have no --margin"),
        (("stock", "differing"), "ftrace_init: boot: runs differ (7560321 and 7560322)"),
    ):
        (links / "x").mkdir(exist_ok=True)
        assert message in tool("bench", "compare", "--kernels", *words, status=2).err


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
