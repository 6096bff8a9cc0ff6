"""Counters as rows beside the time: made campaigns whose counts, gaps and multiplexing are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from prologue_bench.analysis.compare import compare
from prologue_bench.results.counters import CounterReading
from prologue_bench.results.model import Evidence, ResultSet
from prologue_bench.results.store import read_results
from tests.support.result_sets import BUILD, HACKBENCH, Made, boots, campaign, write
from tests.support.tool import Tool

TIME = 10**9


def made(directory: Path, evidence: Evidence = "timing") -> Path:
    """A campaign in which BUILD costs 2% more instructions and no time; one event is missing, one was multiplexed."""
    plan = Made(pairs=8, runs=2, evidence=evidence)
    recorded = []
    for boot in boots(plan):
        count = round(10**9 * (1.02 if boot.variant == BUILD else 1.0)) + 1000 * boot.number
        readings: dict[str, tuple[CounterReading | str, ...]] = {
            "instructions": (CounterReading(count, TIME, TIME),) * 2,
            "cycles": (CounterReading(count, TIME, TIME), CounterReading(count // 4, TIME, TIME // 4)),
            "stalled-cycles-backend": ("ENOENT",) * 2,
            "L1-icache-load-misses": (CounterReading(0, TIME, 0),) * 2,
            "iTLB-load-misses": (CounterReading(0, TIME, TIME),) * 2,
        }
        recorded.append(replace(boot, counters=MappingProxyType({HACKBENCH.name: MappingProxyType(readings)})))
    return write(directory, campaign(plan), recorded)


def test_a_row_for_each_counter(tmp_path: Path, tool: Tool) -> None:
    directory = made(tmp_path / "campaign")
    report = compare(read_results(directory))
    rows = {part.workload.name: part for part in report.workloads}
    assert [part.workload.unit for part in report.workloads] == ["seconds", "instructions", "cycles"]
    for event in ("instructions", "cycles"):
        part = rows[f"{HACKBENCH.name}: {event}"]
        (comparison,) = (c for c in part.comparisons if c.variant == BUILD)
        assert comparison.effect is not None
        assert comparison.verdict == "different"
        assert comparison.effect.ratio == pytest.approx(1.02, abs=1e-4)
    assert rows[HACKBENCH.name].comparisons[-1].verdict == "equivalent"
    assert report.results.notes == (
        "hackbench, sockets: cycles: multiplexed in 24 runs (on a counter for 25% of the time at least), and scaled: "
        "an estimate",
        "hackbench, sockets: stalled-cycles-frontend left out: not recorded in 48 of 48 runs",
        "hackbench, sockets: stalled-cycles-backend left out: ENOENT in 48 of 48 runs",
        "hackbench, sockets: L1-icache-load-misses left out: never on a counter in 48 of 48 runs",
        "hackbench, sockets: iTLB-load-misses left out: a count of 0 has no ratio in 48 of 48 runs",
    )
    assert "not ok 2 hackbench, sockets: instructions" in tool("bench", "compare", directory, "--format", "ktap").out


def test_emulated_counters_are_no_hardwares(tmp_path: Path) -> None:
    report = compare(read_results(made(tmp_path / "campaign", "smoke")))
    assert [part.workload.unit for part in report.workloads] == ["seconds", "instructions"]
    assert not any(part.comparisons for part in report.workloads)
    assert report.results.notes == (
        "counters of an emulated CPU, not of hardware: only instructions are shown, its cycles are a clock",
    )


def test_void_boots_and_older_files(tmp_path: Path) -> None:
    results = read_results(made(tmp_path / "campaign"))
    first = replace(results.boots[0], void="lost", values=MappingProxyType({}), counters=MappingProxyType({}))
    lost = ResultSet(campaign=results.campaign, boots=(first, *results.boots[1:]))
    assert len(compare(lost).workloads) == 3
    older = tuple(replace(boot, counters=MappingProxyType({})) for boot in results.boots)
    assert len(compare(ResultSet(campaign=results.campaign, boots=older)).workloads) == 1
    # One boot of the others was recorded without: no row rather than one of fewer boots.
    gap = (*results.boots[:-1], older[-1])
    notes = compare(ResultSet(campaign=results.campaign, boots=gap)).results.notes
    assert "hackbench, sockets: instructions left out: not recorded in 2 of 48 runs" in notes
