"""Reports for KernelCI: what its library says of them, and what each of their objects stands for."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from prologue_bench.results.store import RESULTS
from tests.bench.recorder.test_reader import changed, one, save
from tests.support.needs import needs_dev_module
from tests.support.result_sets import BASE, BUILD, CONTROL, HACKBENCH, MESSAGING, Made, boots, campaign, make, write
from tests.support.tool import Tool

needs_dev_module("kcidb_io")
import kcidb_io  # noqa: E402 - it may not be installed

COMMIT = "0123456789abcdef" * 2 + "01234567"


def export(tool: Tool, *words: object) -> Any:
    """The report; KernelCI's library has validated it, as an object of its own newest schema."""
    said = tool("bench", "export", *words, "--kcidb", "--origin", "mylab")
    assert said.err == ""
    report = json.loads(said.out)
    kcidb_io.schema.LATEST.validate_exactly(report)
    return report


def test_a_test_for_each_boot_and_workload(tmp_path: Path, tool: Tool) -> None:
    made = Made(pairs=3, workloads=(HACKBENCH, MESSAGING))
    report = export(tool, make(tmp_path, made))
    assert report["version"] == {"major": 5, "minor": 3}
    (checkout,) = report["checkouts"]
    builds = {build["misc"]["kind"]: build for build in report["builds"]}
    assert len(report["builds"]) == 2  # the A/A control is the base's Image
    assert {build["checkout_id"] for build in report["builds"]} == {checkout["id"]}
    assert len(report["tests"]) == 3 * 3 * 2
    assert len({test["id"] for test in report["tests"]}) == 18
    for boot in boots(made):
        for workload, path, unit in (
            (HACKBENCH, "prologue.hackbench_sockets", "s"),
            (MESSAGING, "prologue.perf_messaging_threads", "messages/s"),
        ):
            (test,) = [
                test for test in report["tests"]
                if (test["misc"]["boot"], test["misc"]["workload"]) == (boot.number, workload.name)
            ]  # fmt: skip
            values = boot.values[workload.name]
            assert (test["path"], test["status"]) == (path, "DONE")
            assert test["number"] == {"value": statistics.median(values), "unit": unit}
            assert test["misc"]["samples"] == list(values)
            assert test["start_time"] == boot.started
            assert test["build_id"] == builds["build" if boot.variant == BUILD else "nop-nop"]["id"]
            assert test["misc"]["control"] == (boot.variant == CONTROL)
            assert test["environment"]["comment"] == "board"
            assert test["environment"]["misc"]["cpu"] == "Cortex-A57"


def test_the_same_results_have_the_same_identifiers(tmp_path: Path, tool: Tool) -> None:
    """A report that is submitted twice adds nothing; sets of one link share its checkout and builds."""
    one, other = make(tmp_path / "a", Made(pairs=2)), make(tmp_path / "b", Made(pairs=2, started=1))
    first = export(tool, one)
    both = export(tool, one, other)
    assert both["checkouts"] == first["checkouts"]
    assert both["builds"] == first["builds"]
    assert both["tests"][: len(first["tests"])] == first["tests"]
    assert len({test["id"] for test in both["tests"]}) == 12


def test_boots_of_a_board_without_a_clock_are_several(tmp_path: Path, tool: Tool) -> None:
    records = [changed(one("base", boot), started="1970-01-01T00:00:12Z") for boot in (1, 2)]
    path = save(tmp_path / "boots.jsonl", *records)
    tests = export(tool, path)["tests"]
    assert len({test["id"] for test in tests}) == len(tests) == 2


def test_a_lost_boot_fails_a_void_one_is_missing(tmp_path: Path, tool: Tool) -> None:
    made = Made(pairs=2)
    recorded = boots(made)
    recorded[0] = replace(recorded[0], void="lost: no power-off", values=MappingProxyType({}))
    recorded[1] = replace(recorded[1], void="gate: throttled")
    report = export(tool, write(tmp_path, campaign(made), recorded))
    lost, throttled, *counted = report["tests"]
    assert {test["status"] for test in counted} == {"DONE"}
    assert [test["status"] for test in (lost, throttled)] == ["FAIL", "MISS"]
    assert lost["comment"].endswith("lost: no power-off")
    assert (lost["misc"]["samples"], len(throttled["misc"]["samples"])) == ([], 10)
    assert "number" not in lost
    assert "number" not in throttled


def test_no_path_of_this_machine_is_published(tmp_path: Path, tool: Tool) -> None:
    made = Made(pairs=2)
    plan = replace(campaign(made), command="prologue bench run /home/me/secret/vmlinux")
    assert "/home/me" not in json.dumps(export(tool, write(tmp_path, plan, boots(made))))


def test_smoke_evidence_has_no_number(tmp_path: Path, tool: Tool) -> None:
    for test in export(tool, make(tmp_path, Made(pairs=2, evidence="smoke")))["tests"]:
        assert "number" not in test
        assert "measures the translator" in test["comment"]
        assert test["misc"]["samples"]


def test_the_source_code(tmp_path: Path, tool: Tool) -> None:
    path = make(tmp_path, Made(pairs=2))
    url = "https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git"
    report = export(tool, path, "--commit", COMMIT, "--repository", url, "--tree", "mainline")
    (checkout,) = report["checkouts"]
    assert (checkout["git_commit_hash"], checkout["git_repository_url"]) == (COMMIT, url)
    assert checkout["tree_name"] == "mainline"
    report = export(tool, path, "--checkout", "maestro:4711")
    assert "checkouts" not in report
    assert {build["checkout_id"] for build in report["builds"]} == {"maestro:4711"}


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--origin", "My Lab", "expected a name of a-z, 0-9 and _, found 'My Lab'"),
        ("--checkout", "4711", "expected ORIGIN:ID, found '4711'"),
        ("--commit", "v6.12", "expected the 40 digits of a commit, found 'v6.12'"),
        ("--repository", "git@host:linux", "expected an https:// URL, found 'git@host:linux'"),
    ],
)
def test_bad_words(tmp_path: Path, option: str, value: str, said: str, tool: Tool) -> None:
    words = ["bench", "export", tmp_path, "--kcidb", "--origin", "mylab", option, value]
    assert f"{option}: {said}" in tool(*words, status=2).err


def failing(tool: Tool, *words: object) -> str:
    return tool("bench", "export", *words, "--kcidb", "--origin", "mylab", status=2).err


def test_refused(tmp_path: Path, tool: Tool) -> None:
    made = Made(pairs=2)
    one = make(tmp_path / "a", made)
    copied = write(tmp_path / "b", campaign(made), boots(made))
    assert "boot 1, started 2026-01-01T00:01:00+00:00, is in " in failing(tool, one, copied)
    renumbered = [replace(boot, number=boot.number + 100) for boot in boots(made)]  # as a merge writes them
    assert "boot 101, started 2026-01-01T00:01:00+00:00, is in " in failing(
        tool, one, write(tmp_path / "c", campaign(made), renumbered)
    )
    assert "a table made by hand" in failing(tool, "example:2019-a57")
    link = make(tmp_path / "over" / "link-01", made)
    for results, out in ((one, one / RESULTS), (tmp_path / "over", link / RESULTS)):
        before = out.read_bytes()
        assert f"{out}: is also an input of this command" in failing(tool, results, "-o", out)
        assert out.read_bytes() == before
    odd = replace(campaign(made), machine=MappingProxyType({"arch": "AArch64"}))
    said = failing(tool, write(tmp_path / "odd", odd, boots(made)))
    assert "KernelCI's schema refuses builds.0.architecture: 'AArch64' does not match" in said


def test_a_file(tmp_path: Path, tool: Tool) -> None:
    path = make(tmp_path / "set", Made(pairs=2))
    out = path / "report.json"
    for _ in range(2):  # a report in a result set is no part of it
        assert tool("bench", "export", path, "--kcidb", "--origin", "mylab", "-o", out).out == f"{out}: written\n"
    assert len(json.loads(out.read_text())["tests"]) == 6
    assert {test["misc"]["variant"] for test in json.loads(out.read_text())["tests"]} == {BASE, CONTROL, BUILD}
