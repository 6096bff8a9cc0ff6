"""Kernels of several links in one table: golden texts, what JSON and CSV hold, and what is not compared."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from prologue_bench.results.model import Variant, Workload
from prologue_bench.targets.icount import BOOT
from tests.bench.report.test_reports import bench, check
from tests.support.result_sets import HACKBENCH, Made, boots, campaign, make, write
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
