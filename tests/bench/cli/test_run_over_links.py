"""``bench run --links``: blocks of every link, interleaved, resumed, and one report of all."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from prologue.cli.main import main
from prologue_bench.cli import run as run_command
from prologue_bench.errors import GuestLostError
from prologue_bench.recorder.output import Recorded
from prologue_bench.recorder.task import Task
from prologue_bench.results.journal import hold
from prologue_bench.results.model import Evidence
from prologue_bench.results.store import CAMPAIGN, RESULTS, read_results
from prologue_bench.targets.base import Attempt
from tests.bench.campaign.made import MadeTarget
from tests.support.kbuild_tree import kbuild_tree
from tests.support.needs import needs_dev_module, needs_mini_kernel_tools
from tests.support.result_sets import make
from tests.support.tool import Printed, Tool

needs_dev_module("statsmodels")


@dataclass
class Board(MadeTarget):
    """Takes another time on each link and for each kind; lost at its boots of these numbers."""

    lost: tuple[int, ...] = ()
    evidence: Evidence = "timing"
    boots: list[str] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(4))

    def boot(self, attempt: Attempt, task: Task) -> Recorded:
        link = attempt.image.parents[1].name
        self.boots.append(link)
        if len(self.boots) in self.lost:
            raise GuestLostError("board lost: no answer")
        value = 10 + int(link[-1]) + 0.01 * self.rng.standard_normal() + 0.1 * (attempt.label == "build")
        if self.evidence == "exact":
            value = 1000 * int(link[-1]) + (attempt.label == "build")
        values = {workload.name: (round(float(value), 4),) * task.runs for workload in task.workloads}
        return Recorded(machine={}, readback=None, gate_before={}, gate_after={}, values=values)


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_mini_kernel_tools()
    root = tmp_path_factory.mktemp("links")
    assert main(["bench", "links", str(kbuild_tree(root)), "-n", "3", "-o", str(root / "links")]) == 0
    return root / "links"


def run(tool: Tool, links: Path, out: Path, *more: str, status: int | None = 0) -> Printed:
    plan = ["--workload", "time:true", "--variants", "nop-nop,build", "--boots", "2", "--runs", "1", "--retries", "0"]
    return tool("bench", "run", "--links", links, "-o", out, *plan, *more, status=status)


@pytest.mark.thorough
def test_blocks_are_interleaved_and_resumed(
    links: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    out, board = tmp_path / "over", Board(lost=(5,))
    monkeypatch.setattr(run_command, "choose_target", lambda _: board)
    assert "4 of 18 boots are" in run(tool, links, out, status=4).err
    before = {path.name: (path / RESULTS).read_bytes() for path in sorted(out.iterdir())}
    output = run(tool, links, out)
    names = ["link-01", "link-02", "link-03"]
    assert [path.name for path in sorted(out.iterdir())] == names
    assert all((out / name / RESULTS).read_bytes().startswith(before[name]) for name in names)
    order = [link for number, link in enumerate(board.boots, 1) if number not in board.lost]
    assert sorted(order[:9:3]) == sorted(order[9::3]) == names, "a round has a block of each"
    plans = [json.loads((out / name / CAMPAIGN).read_text()) for name in names]
    assert [plan["seed"] for plan in plans] == [1, 2, 3]
    assert {plan["command"] for plan in plans} == {plans[0]["command"]}
    assert f"--links {links}" in plans[0]["command"]
    assert len({plan["kernel"]["build_id"] for plan in plans}) == 3
    text = " ".join(output.out.split())
    assert "link-03: same link: 0 of" in text
    assert "of which these 3 links are a sample" in text
    assert "2 boots of each variant" not in text
    assert "6 boots of each variant, 1 run in each, in randomised blocks, over 3 links, seeds 1, 2, 3" in text
    alone = read_results(out / "link-02")
    assert len([boot for boot in alone.boots if boot.void is None]) == 6


def test_counts_of_links(links: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    """Counts differ between links; every link is its own base."""
    monkeypatch.setattr(run_command, "choose_target", lambda _: Board(evidence="exact"))
    rows = [line.split() for line in run(tool, links, tmp_path / "exact", "--no-control").out.splitlines()]
    assert ["nop-nop", "1,000", "to", "3,000", "base"] in rows
    assert ["build", "1,001", "to", "3,001", "+1"] in rows


def test_links_that_are_not_run(links: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    monkeypatch.setattr(run_command, "choose_target", lambda _: Board())
    printed = run(tool, tmp_path, tmp_path / "out", status=2)
    assert f"{tmp_path}: no links there: `prologue bench links` makes them" in printed.err
    assert "--reserve: not with --links" in run(tool, links, tmp_path / "out", "--reserve", "board=x", status=2).err
    board = Board()
    with pytest.MonkeyPatch.context() as without:
        without.setattr(run_command, "choose_target", lambda _: board)
        without.setitem(sys.modules, "statsmodels.stats.meta_analysis", None)
        printed = run(tool, links, tmp_path / "out", status=2)
    assert "are compared by statsmodels, which is not installed" in printed.err
    assert board.boots == [], "the report would fail after all of them"
    single = make(tmp_path / "single")
    printed = run(tool, links, single, status=2)
    assert f"{single}: is a result set of a single link: name another directory" in printed.err
    assert sorted(path.name for path in single.iterdir()) == [CAMPAIGN, RESULTS]
    record = links / "link-02" / "link.json"
    whole = record.read_text()
    record.write_text(whole.replace('"build_id": "', '"build_id": "00'))
    try:
        printed = run(tool, links, tmp_path / "out", status=2)
    finally:
        record.write_text(whole)
    assert "link-02/vmlinux: is not the link that link.json beside it describes" in printed.err


def two_of(links: Path, directory: Path) -> Path:
    directory.mkdir()
    for name in ("link-01", "link-02"):
        (directory / name).symlink_to(links / name)
    return directory


def test_links_of_which_nothing_was_booted_leave_the_plan(
    links: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    """As after a Ctrl-C before the first boot: the report would wait for their boots."""
    out = tmp_path / "over"
    monkeypatch.setattr(run_command, "choose_target", lambda _: Board(lost=(1,)))
    run(tool, links, out, status=4)
    for path in out.glob(f"*/{RESULTS}"):
        path.write_bytes(b"")
    monkeypatch.setattr(run_command, "choose_target", lambda _: Board())
    text = " ".join(run(tool, two_of(links, tmp_path / "links"), out).out.split())
    assert "4 boots of each variant, 1 run in each, in randomised blocks, over 2 links, seeds 1, 2" in text
    assert "seeds 1, 2, 3" not in text
    assert "unfinished" not in text


def test_a_link_that_another_process_is_about_to_boot_stays_planned(
    links: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    monkeypatch.setattr(run_command, "choose_target", lambda _: Board())
    plan = tmp_path / "over" / "link-03" / CAMPAIGN
    plan.parent.mkdir(parents=True)
    plan.write_text("{}")
    with hold(plan.parent):
        printed = run(tool, two_of(links, tmp_path / "links"), tmp_path / "over", status=2)
    assert f"{plan.parent}: another process is recording there" in printed.err
    assert plan.exists()


def test_other_links_are_another_plan(links: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    """Links that are added until the answer pleases prove nothing."""
    fewer = two_of(links, tmp_path / "links")
    monkeypatch.setattr(run_command, "choose_target", lambda _: Board(lost=(3,)))
    for number, (first, then) in enumerate(((fewer, links), (links, fewer))):
        out = tmp_path / f"over-{number}"
        run(tool, first, out, status=4)
        before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        assert f"{out}: was begun with other links (not of both: link-03)" in run(tool, then, out, status=2).err
        assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
