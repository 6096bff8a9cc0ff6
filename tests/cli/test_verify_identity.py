"""Reports say which files were judged, when and by what; several reports of one run."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import prologue
from prologue.cli.main import main
from prologue.elf.compressed import compress
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.rules.sites import call_in_second_slot
from tests.support.built import Mini
from tests.support.elf_edit import edit
from tests.support.tool import Tool

DATE = "2023-11-14T22:13:20"


@pytest.fixture(autouse=True)
def epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")


@pytest.fixture
def files(mini: Mini, tmp_path: Path) -> dict[str, Path]:
    """A processed kernel, the file from before, its Image, and a compressed module."""
    vmlinux = mini(Spec())
    paths = {name: tmp_path / name for name in ("before", "Image", "mini.ko.xz")}
    shutil.copy(vmlinux, paths["before"])
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    assert main(["image", str(vmlinux), "-o", str(paths["Image"])]) == 0
    paths["mini.ko.xz"].write_bytes(compress(mini(ModuleSpec()).read_bytes(), "xz"))
    return {"vmlinux": vmlinux, **paths}


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def verify(*arguments: object) -> int:
    return main(["verify", *map(str, arguments)])


def test_json_names_each_file_by_its_hash(files: dict[str, Path], tool: Tool) -> None:
    compared = ("--against", files["before"], "--image", files["Image"])
    data = tool("verify", files["vmlinux"], *compared, "--json").json
    assert data["tool"] == {"name": "prologue", "version": prologue.__version__}
    assert data["date"] == f"{DATE}Z"
    (checked,) = data["checked"]
    assert checked["sha256"] == sha256(files["vmlinux"])
    assert checked["build_id"] is None or len(checked["build_id"]) == 40  # not every linker is asked for one
    assert [(each["role"], each["sha256"]) for each in data["compared"]] == [
        ("before", sha256(files["before"])),
        ("image", sha256(files["Image"])),
    ]


def test_a_compressed_module_is_named_as_it_is_stored(files: dict[str, Path], tool: Tool) -> None:
    data = tool("verify", files["mini.ko.xz"], "--vmlinux", files["vmlinux"], "--json").json
    assert data["checked"][0]["sha256"] == sha256(files["mini.ko.xz"])
    assert data["checked"][0]["release"] == "6.12.0-mini"
    assert [(each["role"], each["sha256"]) for each in data["compared"]] == [("vmlinux", sha256(files["vmlinux"]))]


def test_a_file_that_cannot_be_verified_is_named_too(tmp_path: Path, tool: Tool) -> None:
    cut = tmp_path / "cut"
    cut.write_bytes(b"\x7fELF")
    data = tool("verify", cut, tmp_path / "gone", "--json", status=2).json
    assert [each["sha256"] for each in data["checked"]] == [sha256(cut), None]


def test_one_run_writes_every_report(files: dict[str, Path], tmp_path: Path, tool: Tool) -> None:
    outs = {form: tmp_path / f"report.{form}" for form in ("junit", "sarif", "html", "json")}
    options = [f"--format={form}={path}" for form, path in outs.items()]
    # the log has the text
    said = tool("verify", files["vmlinux"], "--against", files["before"], *options).out
    assert said.splitlines()[-1].startswith("1 file: clean (")
    hashes = [sha256(files[name]) for name in ("vmlinux", "before")]

    suite = ET.parse(outs["junit"]).getroot()[0]  # noqa: S314 - our own
    assert suite.get("timestamp") == DATE
    properties = {each.get("name"): each.get("value") for each in suite.iterfind("properties/property")}
    assert [properties["sha256"], properties[f"before {files['before']} sha256"]] == hashes
    assert properties["prologue"] == prologue.__version__

    judged = json.loads(outs["sarif"].read_text())["runs"][0]
    assert [artifact["hashes"]["sha-256"] for artifact in judged["artifacts"]] == hashes
    assert [artifact["roles"] for artifact in judged["artifacts"]] == [["analysisTarget"], ["referencedOnCommandLine"]]
    assert judged["invocations"][0]["endTimeUtc"] == f"{DATE}Z"

    page = outs["html"].read_text()
    assert f"<dt>made</dt><dd>{DATE}Z by prologue {prologue.__version__}</dd>" in page
    assert all(value in page for value in hashes)
    first = {form: path.read_bytes() for form, path in outs.items() if form != "html"}
    assert verify(files["vmlinux"], "--against", files["before"], *options) == 0
    assert first == {form: outs[form].read_bytes() for form in first}


def test_the_log_names_root_causes_if_the_report_is_in_a_file(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    with edit(mini(Spec())) as elf:
        call_in_second_slot(elf)
    said = tool("verify", elf.path, "--json", "-o", tmp_path / "report.json", status=1)
    assert said.out == ""
    assert "PL201 site-not-pair (fatal): 1\n  work_leaf (.text+" in said.err
    assert said.err.splitlines()[-1].startswith(f"{tmp_path / 'report.json'}: 1 file: 1 fatal")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(["--format", "junit={vmlinux}"], "is also an input of this command", id="over what it reads"),
        pytest.param(["--format", "junit={out}", "-o", "{out}"], "{out}", id="two reports in one file"),
    ],
)
def test_a_report_overwrites_nothing(mini: Mini, tmp_path: Path, options: list[str], said: str, tool: Tool) -> None:
    vmlinux = mini(Spec())
    names = {"vmlinux": vmlinux, "out": tmp_path / "report"}
    content = vmlinux.read_bytes()
    said = tool("verify", vmlinux, *(option.format(**names) for option in options), status=2).err
    assert said.format(**names) in said
    assert vmlinux.read_bytes() == content
    assert not names["out"].exists()


@pytest.mark.parametrize("form", ["pdf=report", "junit="], ids=["an unknown form", "no file"])
def test_a_form_and_a_file_are_needed(form: str, tool: Tool) -> None:
    assert f"invalid choice: '{form}'" in tool("verify", "vmlinux", "--format", form, status=2).err


def test_a_date_that_is_none_is_refused(mini: Mini, monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    assert "SOURCE_DATE_EPOCH=yesterday is not a time in seconds" in tool("verify", mini(Spec()), status=2).err


def test_a_file_that_changes_while_it_is_read_has_no_verdict(
    mini: Mini, monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    """Its hash may be that of other bytes."""
    from prologue.gate import verify as gate

    vmlinux, judge = mini(Spec()), gate.verify_binary

    def changes(*given: object) -> object:
        result = judge(*given)  # type: ignore[arg-type]  # as it was called
        vmlinux.write_bytes(vmlinux.read_bytes())
        return result

    monkeypatch.setattr(gate, "verify_binary", changes)
    assert "was changed while it was verified: verify it again" in tool("verify", vmlinux, status=2).err
