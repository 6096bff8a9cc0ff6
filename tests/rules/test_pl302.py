"""PL302 on every kind of direct branch."""

from __future__ import annotations

import pytest

from tests.mini_kernel.build import Spec
from tests.mutation.pl3 import BRANCHES
from tests.rules.fixture import judged
from tests.support.built import Mini
from tests.support.elf_edit import edit


@pytest.mark.parametrize("name", BRANCHES)
@pytest.mark.parametrize(("slot", "fires"), [(4, True), (0, False)])
def test_every_kind_of_branch(mini: Mini, name: str, slot: int, *, fires: bool) -> None:
    word, low, width = BRANCHES[name]
    with edit(mini(Spec())) as elf:
        place = elf.value("work_nested") + 16
        distance = (elf.value("work_leaf") + slot - place) // 4
        assert -(1 << (width - 1)) <= distance < 1 << (width - 1)
        elf.set_word(place, word | (distance & (1 << width) - 1) << low)
    findings = judged(elf.path, "PL302")
    assert [finding.where.vaddr for finding in findings] == ([place] if fires else [])
