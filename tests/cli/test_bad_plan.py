"""Plans that were edited, damaged or made for another file: refused, and nothing is written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.mini_kernel.build import Spec
from tests.support.tool import Tool

Mini = Callable[[Spec], Path]


def test_plan_of_another_file_is_refused(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    vmlinux, plan = mini(Spec()), tmp_path / "plan.json"
    assert main(["patch", str(vmlinux), "--dry-run", "--save-plan", str(plan)]) == 0
    other = Path(shutil.copy(vmlinux, tmp_path / "other"))
    with other.open("ab") as stream:
        stream.write(b"\0")
    assert "made for another file" in tool("patch", other, "--in-place", "--reverse", plan, status=2).err
    plan.write_text("{}")
    assert "not a plan" in tool("patch", vmlinux, "--in-place", "--reverse", plan, status=2).err


def with_plan(vmlinux: Path, directory: Path, *options: str) -> tuple[Path, Path]:
    """Process a kernel in place, and save the plan."""
    plan = directory / "plan.json"
    assert main(["patch", str(vmlinux), "--in-place", *options, "--save-plan", str(plan)]) == 0
    return vmlinux, plan


@pytest.mark.parametrize("stage", [0, 1, 2])
@pytest.mark.parametrize("contract", ["native", "stock"])
def test_an_edited_plan_is_refused(mini: Mini, tmp_path: Path, contract: str, stage: int, tool: Tool) -> None:
    vmlinux, plan = with_plan(mini(Spec(contract=contract)), tmp_path, "--contract", contract)  # type: ignore[arg-type]
    before = vmlinux.read_bytes()
    data = json.loads(plan.read_text())
    if stage >= len(data["stages"]):
        data["stages"].pop()  # one less instead
    else:
        data["stages"][stage]["edits"][0][1] += 4
    plan.write_text(json.dumps(data))
    assert "edited since" in tool("patch", vmlinux, "--in-place", "--reverse", plan, status=2).err
    assert vmlinux.read_bytes() == before


@pytest.mark.parametrize("change", ["a stage of no kind", "another order"])
def test_a_plan_with_other_stages_is_refused(mini: Mini, tmp_path: Path, change: str, tool: Tool) -> None:
    """The order is what a kill may not break; a stage that nothing compares could write anything."""
    vmlinux, plan = with_plan(mini(Spec()), tmp_path)
    before = vmlinux.read_bytes()
    data = json.loads(plan.read_text())
    if change == "another order":
        data["stages"].reverse()
    else:
        vaddr, offset, _, new = data["stages"][0]["edits"][0]
        data["stages"].append({**data["stages"][0], "kind": "note", "edits": [[vaddr, offset, "0x0", new]]})
    plan.write_text(json.dumps(data))
    said = tool("patch", vmlinux, "--in-place", "--reverse", plan, status=2).err
    assert ("edited since" if change == "another order" else "not a plan") in said
    assert vmlinux.read_bytes() == before


@pytest.mark.parametrize("goal", ["untouched", "variant", 1.5, {}, None])
def test_a_plan_with_another_goal_is_refused(mini: Mini, tmp_path: Path, goal: object, tool: Tool) -> None:
    vmlinux, plan = with_plan(mini(Spec()), tmp_path)
    before = vmlinux.read_bytes()
    plan.write_text(json.dumps({**json.loads(plan.read_text()), "goal": goal}))
    assert "edited since" in tool("patch", vmlinux, "--in-place", "--reverse", plan, status=2).err
    assert vmlinux.read_bytes() == before


@pytest.mark.parametrize("row", [["0x0", 0, "0x0", "0x0", "0x0"], ["0x0", 0.0, "0x0", "0x0"], ["0x0", 0, "0x0"]])
def test_an_edit_that_is_no_edit(mini: Mini, tmp_path: Path, row: list[object], tool: Tool) -> None:
    vmlinux, plan = mini(Spec()), tmp_path / "plan.json"
    assert main(["patch", str(vmlinux), "--dry-run", "--save-plan", str(plan)]) == 0
    data = json.loads(plan.read_text())
    data["stages"][0]["edits"][0] = row
    plan.write_text(json.dumps(data))
    assert "not a plan that prologue saved" in tool("patch", vmlinux, "--in-place", "--reverse", plan, status=2).err


def test_a_plan_that_is_nested_without_end(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text("[" * 100_000)
    assert "cannot be read as a plan" in tool("patch", mini(Spec()), "--in-place", "--reverse", plan, status=2).err
