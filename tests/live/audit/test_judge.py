"""What is said, and counted, of words that no table of the file owns, and of addresses outside of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from prologue.elf.image import ElfImage
from prologue.kernel.kernel import Kernel
from prologue.live.audit.audited import undecided
from prologue.live.audit.breakpoints import Breakpoint
from prologue.live.audit.judge import Describer, TextJudge
from prologue.live.audit.run import _mark_unstable
from prologue.live.memory.state import KernelState, LiveSymbol, LoadedModule
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


class Words:
    def insn(self, word: int, _: int) -> str:
        return hex(word)


@pytest.mark.parametrize("not_known", ["", "of another release"])
def test_a_wrong_copy_of_a_kprobe_is_counted_once(mini: Mini, not_known: str) -> None:
    """Wrong in its row, or, if it was not so in the look before, or nothing is known, not decided there."""
    point = Breakpoint(0x1000, 0xD4200080, 0xD503201F, 0xD503203F)
    text = LiveText(ElfImage(mini(Spec(form="relr"))), ())
    audited = TextJudge(text, {0x1000: point}, cast("Any", Words()), not_known).judge(())
    for each, wrong in ((audited, not not_known), (_mark_unstable(audited, set(audited.words)), 0)):
        (row,) = each.mechanisms
        assert row.wrong == wrong
        assert sum(undecided([each])) == 1 - wrong


TEXT, PROGRAM = 0xFFFF800007000000, 0xFFFF800007100040


def test_code_that_nobody_names_has_no_name_of_what_is_before_it(mini: Mini) -> None:
    """As of a module that hides, and lies after one that does not."""
    symbols = (LiveSymbol(TEXT + 8, "brd_probe", "brd"), LiveSymbol(PROGRAM, "bpf_prog_1", "bpf"))
    modules = (LoadedModule("brd", 0x2000, TEXT, {".text": TEXT}),)
    state = KernelState(release="6.1.0-mini", boot_id="", modules=modules, symbols=symbols, kprobes=())
    name = Describer(Kernel(mini(Spec(form="relr"))), 0, state).name
    assert [name(TEXT + at) for at in (0, 8, 16)] == [f"{TEXT:#x} of brd", "brd_probe of brd", "brd_probe+0x8 of brd"]
    assert name(PROGRAM + 0x40) == "bpf_prog_1+0x40 of bpf"
    for nobodys in (TEXT - 4, TEXT + 0x2000, PROGRAM + 0x1000):
        assert name(nobodys) == f"{nobodys:#x} in memory, outside of vmlinux"
