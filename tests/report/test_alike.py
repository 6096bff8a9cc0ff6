"""What is equal for hundreds of files is said once, with their number; every other format has a place for each file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.report.alike import one_line_each
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.support.built import Mini

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
def test_one_refusal_of_many_modules(modules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(modules), "--release"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{MANY} files (00.ko, 01.ko, 02.ko, ...): GATE release-gate (fatal): 1"
    assert len(lines) == 4
    assert lines[-1].startswith(f"{MANY} files: {MANY} fatal (")
    assert main(["verify", str(modules), "--release", "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert len({finding["file"] for finding in data["findings"]}) == MANY
    assert main(["verify", str(modules), "--release", "--format", "sarif"]) == 1
    results = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    assert len({str(result["locations"]) for result in results}) == MANY


@pytest.mark.thorough
def test_one_reason_why_many_could_not_be_verified(
    modules: Path, mini: Mini, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(mini(Spec(layout="4,2"))), str(modules)]) == 2
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("could not be verified")]
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
