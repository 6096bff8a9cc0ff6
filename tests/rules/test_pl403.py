"""PL403: what processing writes is explained only where it may write it; live words have rules of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.kernel.kernel import Kernel
from prologue.rules.base import Subject
from prologue.rules.engine import run_rules
from prologue.rules.registry import find_rule
from tests.mini_kernel.build import Spec
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit, edit
from tests.support.tool import Tool

B_COND, UNALLOCATED = 0x54000040, 0x5503201F
STP = 0xA9BF7BFD  # stp x29, x30, [sp, #-16]!


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("word", "expected"), [(B_COND, {"PL310", "PL403"}), (UNALLOCATED, {"PL403"})], ids=["B.cond", "none"]
)
def test_a_changed_second_slot_is_an_edit_outside_of_the_plan(
    mini: Callable[[Spec], Path], tmp_path: Path, word: int, expected: set[str]
) -> None:
    vmlinux = mini(Spec())
    before = tmp_path / "before"
    before.write_bytes(vmlinux.read_bytes())
    with edit(vmlinux) as elf:
        elf.set_word(elf.value("work_leaf") + 4, word)
    rules = tuple(find_rule(code) for code in ("PL308", "PL310", "PL403"))
    found = run_rules(Subject(Kernel(vmlinux), Kernel(before)), rules)
    assert {finding.code for finding in found} == expected
    assert {finding.where.symbol for finding in found if finding.where} == {"work_leaf"}


def test_the_mov_is_no_excuse_for_what_was_there_before(mini: Callable[[Spec], Path], tmp_path: Path) -> None:
    """A first slot that held no NOP: processing would have refused, so it cannot have written this MOV."""
    vmlinux, before = mini(Spec()), tmp_path / "before"
    elf = ElfEdit(vmlinux)
    elf.set_word(elf.value("work_leaf"), STP)
    elf.save(before)
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    found = run_rules(Subject(Kernel(vmlinux), Kernel(before)), (find_rule("PL403"),))
    assert [(finding.where.symbol, finding.severity) for finding in found] == [("work_leaf", "fatal")]


@pytest.mark.thorough
@pytest.mark.parametrize("ignored", [(), ("--ignore", "PL3")])
def test_a_live_word_is_no_gap_in_the_account(
    mini: Callable[[Spec], Path], tmp_path: Path, ignored: tuple[str, ...], tool: Tool
) -> None:
    """What a warning reports, or a rule that does not run, fails all the same."""
    vmlinux, before = mini(Spec(labels=True)), tmp_path / "before"
    before.write_bytes(vmlinux.read_bytes())
    with edit(before) as elf:
        elf.set_word(elf.value("label_user"), B_COND)
    assert "PL403 edit-outside-plan (fatal): 1" in tool("verify", vmlinux, "--against", before, *ignored, status=1).out


@pytest.mark.parametrize("spec", [Spec(), Spec(marker=2)], ids=["version 1", "version 2"])
def test_another_build_is_one_finding(mini: Mini, tmp_path: Path, spec: Spec, tool: Tool) -> None:
    """What other rules compare word by word, or relocation by relocation, is of one link."""
    before = tmp_path / "before"
    before.write_bytes(mini(replace(spec, bti=True, labels=True)).read_bytes())
    vmlinux = mini(spec)
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    (finding,) = tool("verify", vmlinux, "--against", before, "--json", status=1).json["findings"]
    assert (finding["code"], finding["follows_from"]) == ("PL403", [])
    assert finding["vaddr"] is None  # of the whole file: 0 is the address of nothing


def test_another_kernel_is_named_by_its_release(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    vmlinux, before = mini(Spec()), tmp_path / "before"
    before.write_bytes(vmlinux.read_bytes().replace(b"Linux version 6.12.0-mini", b"Linux version 6.12.9-mini"))
    said = tool("verify", vmlinux, "--against", before, status=1).out
    assert "PL403 edit-outside-plan (fatal): 1\n  (the file): another build: 6.12.0-mini, before 6.12.9-mini\n" in said
    assert "to do: compare with the file that this one was made from, of the same link" in said


@pytest.mark.parametrize("harmed", [False, True])
def test_before_and_after_exchanged_is_one_finding(mini: Mini, tmp_path: Path, harmed: bool, tool: Tool) -> None:
    """Only if nothing else differs: then each difference is shown."""
    vmlinux, processed = mini(Spec()), tmp_path / "processed"
    assert main(["patch", str(vmlinux), "-o", str(processed)]) == 0
    if harmed:
        with edit(vmlinux) as elf:
            elf.set_word(elf.value("work_nested") + 16, UNALLOCATED)
    document = tool("verify", vmlinux, "--against", processed, "--json", status=1).json
    findings = [f for f in document["findings"] if f["code"] == "PL403"]
    assert (len(findings) > 1) is harmed
    assert any("this file is the one from before" in f["message"] for f in findings) is not harmed
