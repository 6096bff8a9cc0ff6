"""PL403 leaves a live word to the rules for live words only if they tell of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from prologue.rules.base import Subject
from prologue.rules.engine import run_rules
from prologue.rules.registry import find_rule
from prologue.sites.kernel import Kernel
from tests.elf_edit import ElfEdit
from tests.mini_kernel.build import Spec

B_COND, UNALLOCATED = 0x54000040, 0x5503201F


@pytest.mark.parametrize(("word", "expected"), [(B_COND, {"PL310"}), (UNALLOCATED, {"PL403"})], ids=["B.cond", "none"])
def test_a_changed_second_slot_is_told_of_once(
    mini: Callable[[Spec], Path], tmp_path: Path, word: int, expected: set[str]
) -> None:
    vmlinux = mini(Spec())
    before = tmp_path / "before"
    before.write_bytes(vmlinux.read_bytes())
    elf = ElfEdit(vmlinux)
    elf.set_word(elf.value("work_leaf") + 4, word)
    elf.save(vmlinux)
    rules = tuple(find_rule(code) for code in ("PL308", "PL310", "PL403"))
    found = run_rules(Subject(Kernel(vmlinux), Kernel(before)), rules)
    assert {finding.code for finding in found} == expected
    assert {finding.where.symbol for finding in found if finding.where} == {"work_leaf"}
