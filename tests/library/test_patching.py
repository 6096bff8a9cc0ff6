"""``prologue.make_plan`` and ``prologue.write``."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import prologue
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.rules.fixture import process
from tests.support.built import Mini
from tests.support.elf_edit import edit
from tests.trace.made import MadeKernel


def test_a_copy_is_what_the_command_makes(mini: Mini, tmp_path: Path) -> None:
    path, out = mini(Spec(form="relr")), tmp_path / "out"
    linked = path.read_bytes()
    assert prologue.write(prologue.make_plan(prologue.open(path)), out) == 32
    assert path.read_bytes() == linked
    assert process(path).read_bytes() == out.read_bytes()
    assert prologue.write(prologue.make_plan(path), in_place=True) == 0


def test_a_plan_undoes_itself(mini: Mini) -> None:
    path = mini(Spec(contract="stock"))
    linked = path.read_bytes()
    done = prologue.make_plan(path, contract="stock")
    prologue.write(done, in_place=True)
    with pytest.raises(prologue.RefusedError, match="old words are not in this file"):
        prologue.make_plan(path, reverse=True)
    prologue.write(prologue.make_plan(path, reverse=done.plan), in_place=True)
    assert path.read_bytes() == linked


def test_an_output_is_named_once(mini: Mini, tmp_path: Path) -> None:
    path = mini(Spec(form="relr"))
    plan = prologue.make_plan(path)
    (tmp_path / "same").hardlink_to(path)
    with pytest.raises(prologue.UsageError):
        prologue.write(plan)
    with pytest.raises(prologue.UsageError):
        prologue.write(plan, tmp_path / "out", in_place=True)
    for same in (path, tmp_path / "same"):
        with pytest.raises(prologue.OutputError, match="is the input"):
            prologue.write(plan, same)
    assert not (tmp_path / "out").exists()


def test_a_file_that_changed_is_refused(mini: Mini) -> None:
    path = mini(Spec(form="relr"))
    plan = prologue.make_plan(path)
    with edit(path) as elf:
        elf.set_word(elf.value("work_leaf"), 0xD4200000)
    with pytest.raises(prologue.RefusedError, match="another tool wrote"):
        prologue.write(plan, in_place=True)
    with pytest.raises(prologue.RefusedError, match="PL201"):
        prologue.make_plan(path)


def test_what_cannot_be_processed_is_an_error(mini: Mini, tmp_path: Path) -> None:
    packed = tmp_path / "vmlinux.gz"
    packed.write_bytes(gzip.compress(mini(Spec()).read_bytes()))
    for file in (packed, prologue.open(packed)):
        with pytest.raises(prologue.InputError, match="unpack it first"):
            prologue.make_plan(file)
    with pytest.raises(prologue.InputError, match="nothing to process"):
        prologue.make_plan(MadeKernel({"start": ["mov x0, #1", "ret"]}).write(tmp_path / "without-ftrace"))


def test_a_module_needs_its_kernel(mini: Mini, tmp_path: Path) -> None:
    module, vmlinux = mini(ModuleSpec()), mini(Spec(form="relr"))
    with pytest.raises(prologue.RefusedError, match="does not say what its kernel expects"):
        prologue.make_plan(module)
    plan = prologue.make_plan(module, vmlinux=vmlinux)
    assert plan.plan.count("site") == prologue.write(plan, tmp_path / "out.ko")
