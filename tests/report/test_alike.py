"""What is equal for hundreds of files is said once, with their number; every other format has a place for each file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.report.lines import one_line_each
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.support.built import Mini
from tests.support.tool import Tool

MANY = 12


@pytest.fixture
def modules(mini: Mini, tmp_path: Path) -> Path:
    directory = tmp_path / "modules"
    directory.mkdir()
    module = mini(ModuleSpec())
    for number in range(MANY):
        shutil.copy(module, directory / f"{number:02}.ko")
    return directory


@pytest.mark.thorough
def test_one_refusal_of_many_modules(modules: Path, tool: Tool) -> None:
    lines = tool("verify", modules, "--release", status=1).out.splitlines()
    assert lines[0] == f"{MANY} files (00.ko, 01.ko, 02.ko, ...): GATE release-gate (fatal): 1"
    assert len(lines) == 4
    assert lines[-1].startswith(f"{MANY} files: {MANY} fatal (")
    data = tool("verify", modules, "--release", "--json", status=1).json
    assert len({finding["file"] for finding in data["findings"]}) == MANY
    results = tool("verify", modules, "--release", "--format", "sarif", status=1).json["runs"][0]["results"]
    assert len({str(result["locations"]) for result in results}) == MANY


@pytest.mark.thorough
def test_one_reason_why_many_could_not_be_verified(modules: Path, mini: Mini, tool: Tool) -> None:
    said = tool("verify", mini(Spec(layout="4,2")), modules, status=2).out
    (line,) = [line for line in said.splitlines() if line.startswith("could not be verified")]
    assert line.startswith(f"could not be verified: {MANY} files (00.ko, 01.ko, 02.ko, ...): layout 2, but ")


@pytest.mark.thorough
def test_a_baseline_still_has_an_entry_for_each_file(modules: Path, tmp_path: Path, mini: Mini) -> None:
    vmlinux = mini(Spec(contract="stock"))
    assert main(["patch", str(vmlinux), "--in-place", "--contract", "stock"]) == 0
    known = tmp_path / "known.toml"
    assert main(["verify", str(vmlinux), str(modules), "--save-baseline", str(known)]) == 1
    assert known.read_text().count("[[known]]") == MANY


def test_few_files_and_texts_of_no_file_stay_as_they_are() -> None:
    assert one_line_each([("a", "x"), (None, "x"), ("b", "y"), ("b", "y")]) == ["a: x", "x", "b: y"]
