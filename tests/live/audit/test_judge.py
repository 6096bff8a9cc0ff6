"""What is said, and counted, of words that no table of the file owns."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from prologue.elf.image import ElfImage
from prologue.live.audit.audited import undecided
from prologue.live.audit.breakpoints import Breakpoint
from prologue.live.audit.judge import TextJudge
from prologue.live.audit.run import _mark_unstable
from prologue.live.system.running_kernel import LiveText
from tests.mini_kernel.build import Spec
from tests.rules.fixture import AUDIT, as_running
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit
from tests.support.tool import Tool

BRK_0 = 0xD4200000


@pytest.mark.parametrize(
    ("symbol", "offset", "where"),
    [
        ("work_leaf", 8, "4 bytes before it is a word of the second slots"),
        ("label_user", -4, "4 bytes after it is a word of the jump labels"),
    ],
)
def test_where_the_nearest_mechanism_is(vmlinux: Path, symbol: str, offset: int, where: str, tool: Tool) -> None:
    vaddr = ElfEdit(vmlinux).value(symbol) + offset
    said = tool(*AUDIT, *as_running(vmlinux, {vaddr: BRK_0}), status=1).out
    assert "PL503" in said
    assert f"no mechanism owns it; {where}" in said


class Describer:
    def insn(self, word: int, _: int) -> str:
        return hex(word)


@pytest.mark.parametrize("not_known", ["", "of another release"])
def test_a_wrong_copy_of_a_kprobe_is_counted_once(mini: Mini, not_known: str) -> None:
    """Wrong in its row, or, if it was not so in the look before, or nothing is known, not decided there."""
    point = Breakpoint(0x1000, 0xD4200080, 0xD503201F, 0xD503203F)
    text = LiveText(ElfImage(mini(Spec(form="relr"))), ())
    audited = TextJudge(text, {0x1000: point}, cast("Any", Describer()), not_known).judge(())
    for each, wrong in ((audited, not not_known), (_mark_unstable(audited, set(audited.words)), 0)):
        (row,) = each.mechanisms
        assert row.wrong == wrong
        assert sum(undecided([each])) == 1 - wrong
