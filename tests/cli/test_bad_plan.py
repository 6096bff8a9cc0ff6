"""Plans that were edited, damaged or made for another file: refused, and nothing is written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.mini_kernel.build import Spec

Mini = Callable[[Spec], Path]


def test_plan_of_another_file_is_refused(mini: Mini, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vmlinux, plan = mini(Spec()), tmp_path / "plan.json"
    assert main(["patch", str(vmlinux), "--dry-run", "--save-plan", str(plan)]) == 0
    other = Path(shutil.copy(vmlinux, tmp_path / "other"))
    with other.open("ab") as stream:
        stream.write(b"\0")
    assert main(["patch", str(other), "--in-place", "--reverse", str(plan)]) == 2
    assert "made for another file" in capsys.readouterr().err
    plan.write_text("{}")
    assert main(["patch", str(vmlinux), "--in-place", "--reverse", str(plan)]) == 2
    assert "not a plan" in capsys.readouterr().err


def with_plan(vmlinux: Path, directory: Path, *options: str) -> tuple[Path, Path]:
    """Process a kernel in place, and save the plan."""
    plan = directory / "plan.json"
    assert main(["patch", str(vmlinux), "--in-place", *options, "--save-plan", str(plan)]) == 0
    return vmlinux, plan


@pytest.mark.parametrize("stage", [0, 1, 2])
@pytest.mark.parametrize("contract", ["native", "stock"])
def test_an_edited_plan_is_refused(
    mini: Mini, tmp_path: Path, contract: str, stage: int, capsys: pytest.CaptureFixture[str]
) -> None:
    vmlinux, plan = with_plan(mini(Spec(contract=contract)), tmp_path, "--contract", contract)  # type: ignore[arg-type]
    before = vmlinux.read_bytes()
    data = json.loads(plan.read_text())
    if stage >= len(data["stages"]):
        data["stages"].pop()  # one less instead
    else:
        data["stages"][stage]["edits"][0][1] += 4
    plan.write_text(json.dumps(data))
    assert main(["patch", str(vmlinux), "--in-place", "--reverse", str(plan)]) == 2
    assert "edited since" in capsys.readouterr().err
    assert vmlinux.read_bytes() == before


@pytest.mark.parametrize("change", ["a stage of no kind", "another order"])
def test_a_plan_with_other_stages_is_refused(
    mini: Mini, tmp_path: Path, change: str, capsys: pytest.CaptureFixture[str]
) -> None:
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
    assert main(["patch", str(vmlinux), "--in-place", "--reverse", str(plan)]) == 2
    assert ("edited since" if change == "another order" else "not a plan") in capsys.readouterr().err
    assert vmlinux.read_bytes() == before


@pytest.mark.parametrize("goal", ["untouched", "variant", 1.5, {}, None])
def test_a_plan_with_another_goal_is_refused(
    mini: Mini, tmp_path: Path, goal: object, capsys: pytest.CaptureFixture[str]
) -> None:
    vmlinux, plan = with_plan(mini(Spec()), tmp_path)
    before = vmlinux.read_bytes()
    plan.write_text(json.dumps({**json.loads(plan.read_text()), "goal": goal}))
    assert main(["patch", str(vmlinux), "--in-place", "--reverse", str(plan)]) == 2
    assert "edited since" in capsys.readouterr().err
    assert vmlinux.read_bytes() == before


@pytest.mark.parametrize("row", [["0x0", 0, "0x0", "0x0", "0x0"], ["0x0", 0.0, "0x0", "0x0"], ["0x0", 0, "0x0"]])
def test_an_edit_that_is_no_edit(
    mini: Mini, tmp_path: Path, row: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    vmlinux, plan = mini(Spec()), tmp_path / "plan.json"
    assert main(["patch", str(vmlinux), "--dry-run", "--save-plan", str(plan)]) == 0
    data = json.loads(plan.read_text())
    data["stages"][0]["edits"][0] = row
    plan.write_text(json.dumps(data))
    assert main(["patch", str(vmlinux), "--in-place", "--reverse", str(plan)]) == 2
    assert "not a plan that prologue saved" in capsys.readouterr().err


def test_a_plan_that_is_nested_without_end(mini: Mini, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text("[" * 100_000)
    assert main(["patch", str(mini(Spec())), "--in-place", "--reverse", str(plan)]) == 2
    assert "cannot be read as a plan" in capsys.readouterr().err
