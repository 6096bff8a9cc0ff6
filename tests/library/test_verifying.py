"""``prologue.verify``: findings as the command has them, and nothing clean that was not looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

import prologue
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.rules.fixture import process
from tests.support.built import Mini
from tests.support.elf_edit import NOP, edit
from tests.support.tool import Tool


def test_findings_are_those_of_the_command(mini: Mini, tool: Tool) -> None:
    path = process(mini(Spec(form="relr")))
    with edit(path) as elf:
        elf.set_word(elf.value("work_leaf"), NOP)
    expected = [finding["code"] for finding in tool("verify", "--no-config", "--json", path, status=1).json["findings"]]
    for file in (path, prologue.open(path)):
        verified = prologue.verify(file)
        assert not verified.passed
        assert [finding.code for finding in verified.findings] == expected


def test_what_is_verified_is_the_file_as_it_is_now(mini: Mini) -> None:
    kernel = prologue.open(mini(Spec()))
    assert kernel.state == "untouched"
    prologue.write(prologue.make_plan(kernel), in_place=True)
    verified = prologue.verify(kernel)
    assert verified.passed
    assert verified.facts is not None
    assert verified.facts.state == "processed"


def test_what_was_not_verified_is_an_error(mini: Mini, tmp_path: Path) -> None:
    path = mini(Spec())
    (tmp_path / "damaged").write_bytes(path.read_bytes()[:5000])
    with pytest.raises(prologue.InputError):
        prologue.verify(tmp_path / "damaged")
    with pytest.raises(prologue.InputError):
        prologue.verify(path, against=tmp_path / "damaged")
    with pytest.raises(prologue.InputError, match="names the kernel of a module"):
        prologue.verify(path, vmlinux=path)
    with pytest.raises(prologue.UsageError, match="PL404"):
        prologue.verify(path, image=tmp_path / "damaged", ignore=["PL404"])
    for names in (["PL5"], ["PL111"], "PL1", ["PL999"]):
        with pytest.raises(prologue.UsageError):
            prologue.verify(path, select=names)


def test_a_module_of_another_kernel_is_bad_input(mini: Mini) -> None:
    module, vmlinux = mini(ModuleSpec(layout="4,2")), mini(Spec(form="relr"))
    assert prologue.verify(module).passed
    with pytest.raises(prologue.InputError, match="that is not its kernel"):
        prologue.verify(module, vmlinux=prologue.open(vmlinux))
