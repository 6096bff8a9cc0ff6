"""Three campaigns at once on a farm of two boards, one of which dies: labgrid's coordinator and exporters, guests."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue_bench.analysis.sources import open_results
from prologue_bench.results.model import ResultSet
from prologue_bench.results.store import RESULTS, read_results
from tests.support.farm.lab import TAG, Lab, pack_shell, running_lab
from tests.support.needs import needs_dev_module, needs_kernel, needs_tools
from tests.support.processes import HEEDING
from tests.support.tool import Tool

needs_dev_module("labgrid")
# Seven minutes; tests/bench/targets/test_farm.py has farms of boards that cost seconds.
pytestmark = [pytest.mark.kernel, pytest.mark.qemu, pytest.mark.extended, pytest.mark.timeout(1800)]

PATIENCE = 800
NAMES = ("left", "right")


class Campaign:
    """A ``prologue bench run`` in a process of its own."""

    def __init__(self, directory: Path, environment: Path, vmlinux: Path, seed: int) -> None:
        self.directory = directory
        self.errors = directory.with_suffix(".errors")
        command = [
            *HEEDING, sys.executable, "-m", "prologue", "bench", "run", vmlinux, "-o", directory,
            "--target", f"labgrid:{environment}", "--reserve", TAG, "--variants", "nop-nop,boot", "--no-control",
            "--boots", 1, "--runs", 1, "--seed", seed, "--retries", 1, "--timeout", 200,
            "--workload", "hackbench:process,sockets,g=1,l=1",
        ]  # fmt: skip
        with self.errors.open("w") as errors, directory.with_suffix(".report").open("w") as report:
            self.process = subprocess.Popen([str(word) for word in command], stdout=report, stderr=errors, text=True)

    def said(self) -> str:
        return self.errors.read_text()

    def results(self) -> ResultSet:
        return read_results(self.directory)


def wait(until: Callable[[], bool], *campaigns: Campaign) -> None:
    end = time.monotonic() + PATIENCE
    while not until():
        ended = all(campaign.process.poll() is not None for campaign in campaigns)
        assert until() or not (ended or time.monotonic() > end), [campaign.said() for campaign in campaigns]
        time.sleep(0.1)


def test_three_campaigns_on_two_boards_one_of_which_dies(tmp_path: Path, tool: Tool) -> None:
    needs_tools("qemu-system-aarch64", "setpriv")
    vmlinux = needs_kernel("bookworm").vmlinux
    image = tmp_path / "Image"
    assert main(["image", str(vmlinux), "-o", str(image)]) == 0
    with running_lab(tmp_path, NAMES, pack_shell()) as lab:
        environment = lab.environment(image)
        campaigns = [Campaign(tmp_path / name, environment, vmlinux, k) for k, name in enumerate("abc")]
        try:
            killed, dead = kill_one(lab, campaigns)
            wait(lambda: all(each.process.poll() is not None for each in campaigns), *campaigns)
        finally:
            for each in campaigns:
                each.process.terminate()
                each.process.wait()
        assert [each.process.returncode for each in campaigns] == [0, 0, 0], [each.said() for each in campaigns]
        # everything was given back: who comes next finds no reservation and no acquired place
        assert lab.client("reservations") == ""
        assert lab.client("places", "--acquired") == ""
    assert sum("waiting for a place with board=virt" in each.said() for each in campaigns) >= 1
    (alive,) = {*NAMES} - {dead}
    check_moved(killed, dead, alive)
    for each in campaigns:
        if each is not killed:
            (board,) = each.results().boards
            assert {boot.block for boot in each.results().boots} == {0}
            assert board in NAMES
    check_merged(campaigns, tool)


def kill_one(lab: Lab, campaigns: list[Campaign]) -> tuple[Campaign, str]:
    """Wait until a campaign has the first boot of its block, and kill its board; the campaign and the board."""

    def begun() -> list[tuple[Campaign, str]]:
        rows = [(each, each.directory / RESULTS) for each in campaigns]
        boots = [(each, [*map(json.loads, path.read_text().splitlines())]) for each, path in rows if path.exists()]
        counted = [(each, [boot for boot in found if boot["void"] is None]) for each, found in boots]
        return [(each, found[0]["board"]) for each, found in counted if len(found) == 1]

    wait(lambda: bool(begun()), *campaigns)
    campaign, board = begun()[0]
    lab.kill(board)
    return campaign, board


def check_moved(campaign: Campaign, dead: str, alive: str) -> None:
    """What the board gave before it died is kept; its block is left as it was, and another one is whole elsewhere."""
    results = campaign.results()
    counted = [boot for boot in results.boots if boot.void is None]
    assert [(boot.block, boot.board) for boot in counted] == [(0, dead), (1, alive), (1, alive)]
    assert sorted(boot.variant for boot in counted[1:]) == ["boot", "nop-nop"]
    lost = [boot for boot in results.voids if boot.board == dead]
    assert {boot.block for boot in lost} == {0}
    assert str(lost[-1].void).startswith("lost: ")
    assert f"{dead}: put aside: " in campaign.said()
    report = campaign.directory.with_suffix(".report").read_text()
    assert f"2 boards: {dead} (1 boot), {alive} (2 boots); each block on one of them" in report


def check_merged(campaigns: list[Campaign], tool: Tool) -> None:
    """Every boot of every campaign, each block on one board, and a report that compares nothing of an emulator."""
    names = [str(each.directory) for each in campaigns]
    merged = open_results(names)
    assert len(merged.boots) == sum(len(each.results().boots) for each in campaigns)
    assert [boot.values for boot in merged.boots] == [b.values for each in campaigns for b in each.results().boots]
    owners = {(boot.block, boot.board) for boot in merged.boots}
    assert len(owners) == len({block for block, _ in owners}) == 4
    assert sorted(merged.boards) == sorted(NAMES)
    said = tool("bench", "compare", *names).out
    assert "2 boards: " in said
    assert "no comparison: smoke evidence" in said
    report = tool("bench", "export", *names, "--kcidb", "--origin", "mylab").json
    assert len(report["tests"]) == len(merged.boots)
    assert {test["environment"]["misc"]["board"] for test in report["tests"]} == {*NAMES}
