"""Results of other programs: real files of hackbench, hyperfine and pyperf, and what has means only."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue_bench.analysis.compare import compare
from prologue_bench.analysis.sources import open_results
from tests.support.result_sets import BASE, BUILD, HACKBENCH, MESSAGING, Made, make
from tests.support.tool import Tool

FILES = Path(__file__).with_name("foreign")
HACK = "hackbench process mode, 1 groups, 40 descriptors each"


def named(text: str) -> list[str]:
    """Words, with the directory of the files before each file."""
    return [word.replace("@", f"{FILES}/") for word in text.split()]


@pytest.mark.parametrize(
    ("names", "variants", "workloads", "boots"),
    [
        ("base=@hackbench-base-1.txt build=@hackbench-build-1.txt", ("base", "build"), (HACK,), False),
        (
            "a=@hackbench-base-1.txt a=@hackbench-base-2.txt b=@hackbench-build-1.txt b=@hackbench-build-2.txt",
            ("a", "b"), (HACK,), True,
        ),
        ("@hyperfine.json", ("short", "long"), ("hyperfine",), False),
        ("@pyperf-base.json @pyperf-build.json", ("pyperf-base", "pyperf-build"), ("pass",), False),
        ("@go-old.txt @go-new.txt", ("go-old", "go-new"), ("Pipe-8", "Pipe-8, B/op"), False),
        ("@boots.csv", ("nop-nop", "build"), ("hackbench", "build"), True),
        ("@rates.tsv", ("old", "new"), ("rates",), False),
    ],
    ids=["hackbench", "hackbench, a file a boot", "hyperfine", "pyperf", "Go", "CSV with boots", "TSV with rates"],
)  # fmt: skip
def test_files_of_other_programs(
    names: str, variants: tuple[str, ...], workloads: tuple[str, ...], boots: bool, tool: Tool
) -> None:
    results = open_results(named(names))
    campaign = results.campaign
    assert tuple(variant.label for variant in campaign.variants) == variants
    assert tuple(workload.name for workload in campaign.workloads) == workloads
    assert (campaign.base, results.boots_known) == (variants[0], boots)
    printed = " ".join(tool("bench", "compare", *named(names)).out.split())
    assert ("the order of boots is not known" if boots else "boots are unknown") in printed
    assert "samples taken by other programs" in printed


def test_what_the_numbers_are() -> None:
    results = open_results(named("a=@hackbench-base-1.txt a=@hackbench-base-2.txt b=@hackbench-build-1.txt "
                                 "b=@hackbench-build-2.txt"))  # fmt: skip
    assert [boot.variant for boot in results.boots] == ["a", "a", "b", "b"]
    assert results.boots[0].values[HACK] == (0.131, 0.040, 0.095)
    table = open_results(named("@boots.csv"))
    assert [len(table.valid(label)) for label in ("nop-nop", "build")] == [7, 7]
    first = table.valid("nop-nop")[0]
    assert [len(values) for values in first.values.values()] == [2, 2]
    directions = {w.name: (w.unit, w.direction) for w in open_results(named("@rates.tsv")).campaign.workloads}
    assert directions == {"rates": ("MB/s", "higher")}


def test_a_log_of_hackbench_is_no_log_of_ours(tmp_path: Path) -> None:
    for label in ("base", "build"):
        shutil.copy(FILES / f"hackbench-{label}-1.txt", tmp_path / f"{label}.log")
    results = open_results([str(tmp_path / "base.log"), str(tmp_path / "build.log")])
    assert [variant.label for variant in results.campaign.variants] == ["base", "build"]


MMTESTS = """hackbench-process-pipes
                              5.7.0                  5.7.0
                            vanilla        nofsnotify-v1r1
Amean     1       0.4837 (   0.00%)      0.4630 *   4.27%*
Amean     3       1.5447 (   0.00%)      1.4557 (   5.76%)
"""
BENCHSTAT = """       \u2502   old.txt   \u2502              new.txt               \u2502
       \u2502   sec/op    \u2502   sec/op     vs base              \u2502
Pipe-8   61.5\u00b5 \u00b1 1%   63.6\u00b5 \u00b1 1%  +3.42% (p=0.000 n=8)
"""
BY_HAND = "docs/json.md has a table to write by hand, in ten lines to copy"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (MMTESTS, f"a summary has means only, and nothing of single runs or boots can be said; {BY_HAND}"),
        (BENCHSTAT, f"a summary has means only, and nothing of single runs or boots can be said; {BY_HAND}"),
        ("variant,mean,stddev\na,5.7,0.1\nb,5.8,0.1\n", "a table with 'mean' and no value of each run has means only"),
        ("the quick brown fox\n", "is none of CSV with a head, hyperfine's or pyperf's JSON"),
        ("variant,number\na,5\n", f"no column 'value' (the head is variant, number); {BY_HAND}"),
        ("variant,value,unit\na,5,frobs\nb,6,frobs\n", f"unit 'frobs': is less or more of it better? {BY_HAND}"),
        ("variant,seconds\na,5\nb,x\n", ":3: seconds: expected a number, found 'x'"),
        ("variant,seconds\na,5\n", "one variant only (a): name the file of another too, as in base=A build=B"),
        ('{"results": [{"command": "true", "mean": 1, "times": []}]}', "true, without times, has means only"),
        ("variant,workload,seconds\na,x,5\na,y,6\nb,x,5\n", "b: no samples of y"),
    ],
    ids=[
        "mmtests",
        "benchstat's summary",
        "means",
        "prose",
        "no value",
        "unit",
        "number",
        "alone",
        "hyperfine",
        "hole",
    ],
)
def test_what_is_refused_and_why(content: str, message: str, tmp_path: Path, tool: Tool) -> None:
    path = tmp_path / "results.txt"
    path.write_text(content)
    error = tool("bench", "compare", path, status=2).err
    assert error.startswith(f"prologue: {path}")
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("form", ["csv", "benchstat"])
def test_what_is_exported_is_read_again(form: str, tmp_path: Path) -> None:
    own = make(tmp_path / "own", Made(effects={BUILD: 0.02}, workloads=(HACKBENCH, MESSAGING), runs=3))
    out = tmp_path / f"samples.{form}"
    assert main(["bench", "export", str(own), f"--{form}", "-o", str(out)]) == 0
    before, after = compare(open_results([str(own)])), compare(open_results([str(out)]))
    assert [w.series[0].median for w in after.workloads] == [w.series[0].median for w in before.workloads]
    assert [w.workload.direction for w in after.workloads] == [w.workload.direction for w in before.workloads]
    if form == "csv":  # with its blocks
        changes = [[c.effect for c in w.comparisons] for report in (before, after) for w in report.workloads]
        assert changes[:2] == changes[2:]
        assert after.results.campaign.base == BASE
