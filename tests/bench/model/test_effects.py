"""``bench expect``: what models of cores say of the words at patch sites, and what campaign decides it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import prologue
from prologue.cli.main import main
from prologue.errors import UsageError
from prologue.examples.place import place_example
from prologue.insn import a64
from prologue_bench.model.effects import plan_campaign
from prologue_bench.model.executed_code import WINDOW, WINDOWS, read_executed_code
from prologue_bench.model.pipeline import Pipelines
from tests.support.needs import needs_tools
from tests.trace.made import recording


def made(path: Path, repeated: int) -> tuple[Path, Path]:
    """A trace of so many times 84 instructions, and its vmlinux."""
    example = place_example("example:good")
    assert example.trace is not None
    ranges = np.concatenate(list(prologue.trace(example.trace, example.vmlinux).ranges()))
    rows = [
        {"start": start, "count": (end - start) // 4, "level": level}
        for start, end, level in ranges[["start", "end", "level"]].tolist()
    ]
    path.write_bytes(recording(rows * repeated))
    return path, example.vmlinux


def test_windows_are_the_code_that_ran(tmp_path: Path) -> None:
    path, vmlinux = made(tmp_path / "trace", 400)
    code = read_executed_code(str(path), vmlinux)
    assert (code.instructions, code.of_kernel, code.prologues) == (84 * 400, 84 * 400, 11 * 400)
    assert [len(window.words) for window in code.windows] == [WINDOW] * 3
    first = code.windows[0]
    assert int((first.slots == 1).sum()) == pytest.approx(WINDOW * 11 / 84, abs=11)
    after = np.flatnonzero(first.slots == 1) + 1
    assert (first.slots[after[after < WINDOW]] == 2).all()
    assert set(first.words[first.slots == 1].tolist()) <= {a64.NOP, a64.MOV_X9_X30}


def test_a_trace_that_is_too_short(capsys: pytest.CaptureFixture[str]) -> None:
    needs_tools("llvm-mca-19")
    example = place_example("example:good")
    assert main(["bench", "expect", str(example.trace), "--vmlinux", str(example.vmlinux)]) == 2
    assert "executed 84 instructions: 10,000 at least are needed" in capsys.readouterr().err


@pytest.mark.parametrize(("core", "word", "rate"), [("cortex-a53", a64.MOV_X9_X30, 2), ("cortex-a57", a64.NOP, 3)])
def test_a_model_issues_as_wide_as_its_core(core: str, word: int, rate: int) -> None:
    needs_tools("llvm-mca-19", "llvm-mc-19")
    ran = Pipelines().run(core, np.full(600, word, np.uint32))
    assert (ran.width, ran.instructions, ran.skipped) == (rate, 600, 0)
    assert ran.cycles == pytest.approx(600 / rate, rel=0.03)


def test_calls_cost_no_more_than_branches() -> None:
    needs_tools("llvm-mca-19", "llvm-mc-19")
    pipelines, nops = Pipelines(), [a64.NOP] * 20
    bl, b, blr, br = 0x94000010, 0x14000010, 0xD63F0000, 0xD61F0000
    cycles = [pipelines.run("cortex-a53", np.array([*nops, word] * 10, np.uint32)).cycles for word in (bl, b, blr, br)]
    assert cycles[0] == cycles[1]
    assert cycles[2] == cycles[3]
    assert max(cycles) < 250


def test_what_a_model_does_not_know_is_counted() -> None:
    needs_tools("llvm-mca-19", "llvm-mc-19")
    cas, nothing = 0x88A07C20, 0xFFFFFFFF  # the A53 has no atomics; and no core has that
    ran = Pipelines().run("cortex-a53", np.array([a64.NOP, cas, nothing, a64.MOV_X9_X30], np.uint32))
    assert (ran.instructions, ran.skipped) == (3, 1)  # what is no instruction counts as a NOP


def test_names_of_cores() -> None:
    needs_tools("llvm-mca-19", "llvm-mc-19")
    pipelines = Pipelines()
    names = ("a53", "n1", "v2", "x2", "cortex-a76", "a64fx", "ampere1", "tsv110")
    assert [pipelines.core(name) for name in names] == [
        "cortex-a53", "neoverse-n1", "neoverse-v2", "cortex-x2", "cortex-a76", "a64fx", "ampere1", "tsv110",
    ]  # fmt: skip
    with pytest.raises(UsageError, match=r"--cores a7x: .* has no model of it: did you mean cortex-a7"):
        pipelines.core("a7x")


def test_text_that_is_not_what_ran_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file has a branch to itself where the kernel that ran had another one."""
    needs_tools("llvm-mca-19", "llvm-mc-19")
    path, vmlinux = made(tmp_path / "trace", 160)
    assert main(["bench", "expect", str(path), "--vmlinux", str(vmlinux), "--cores", "a57"]) == 0
    assert capsys.readouterr().err == ""
    code = read_executed_code(str(path), vmlinux)
    start = int(np.flatnonzero(code.windows[0].slots == 1)[0])
    content = vmlinux.read_bytes()
    before = code.windows[0].words[start : start + 5].astype("<u4").tobytes()
    assert before in content
    stale = tmp_path / "stale"
    stale.write_bytes(content.replace(before, before[:16] + 0x14000000.to_bytes(4, "little")))
    assert main(["bench", "expect", str(path), "--vmlinux", str(stale), "--cores", "a57"]) == 0
    assert "warning: the text is not what ran" in capsys.readouterr().err


@pytest.mark.parametrize(("margin", "links"), [(0.01, 6), (0.003, 20)])
def test_the_campaign_is_as_large_as_compare_would_ask_for(margin: float, links: int) -> None:
    campaign = plan_campaign(margin, boots_vary=0.003, layouts_vary=0.003, pairs=3)
    assert campaign is not None
    assert (campaign.links, campaign.boots) == (links, 3 * 3 * links)
    assert plan_campaign(1e-6, boots_vary=0.003, layouts_vary=0.003, pairs=3) is None


def test_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs_tools("llvm-mca-19", "llvm-mc-19")
    path, vmlinux = made(tmp_path / "trace", 120)
    command = ["bench", "expect", str(path), "--vmlinux", str(vmlinux)]
    assert main([*command, "--cores", "a53,a57", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [core["core"] for core in document["cores"]] == ["cortex-a53", "cortex-a57"]
    assert [core["in_order"] for core in document["cores"]] == [True, False]
    for core in document["cores"]:
        # 22 of 84 instructions are slots: without them at most as many cycles fewer.
        assert 0 < core["nops"]["effect"] < 22 / 62
        assert core["nops"]["half"] is None  # of one window
        assert core["command"].startswith("prologue bench run --links links/")
    assert main([*command, "--cores", "a57"]) == 0
    text = capsys.readouterr().out
    assert "1,320 first slots executed, 13.10% of all" in text
    assert "cortex-a57     3, out of order" in text
    assert "prologue bench links linux/out -n 6 -o links/" in text


def test_windows_are_spread_over_the_whole_trace(tmp_path: Path) -> None:
    """Of 31 windows the last 15 are of one range: half of those that are kept."""
    path, vmlinux = made(tmp_path / "trace", 16 * WINDOW // 84)
    rows = np.concatenate(list(prologue.trace(path, vmlinux).ranges()))
    ranges = [
        {"start": start, "count": (end - start) // 4, "level": level}
        for start, end, level in rows[["start", "end", "level"]].tolist()
    ]
    path.write_bytes(recording([*ranges, *ranges[-1:] * (15 * WINDOW // ranges[-1]["count"] + 50)]))
    windows = read_executed_code(str(path), vmlinux).windows
    assert len(windows) == WINDOWS
    assert sum(len(set(window.words.tolist())) <= ranges[-1]["count"] for window in windows) in (7, 8)
