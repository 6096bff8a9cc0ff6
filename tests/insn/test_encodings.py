"""Our constants and encodings against keystone, an assembler that is not ours."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prologue.insn import a64
from prologue.insn.cmodx import NEW_LIST, OLD_LIST, judge, listed
from prologue.insn.decode import branches, calls_to
from prologue.insn.table import CLASSES
from tests.support.assembler import assemble, assemble_now


@pytest.mark.parametrize(
    ("constant", "text"),
    [
        (a64.NOP, "nop"),
        (a64.MOV_X9_X30, "mov x9, x30"),
        (a64.MOV_W0_0, "mov w0, #0"),
        (a64.RET, "ret"),
        (a64.BTI, "hint #32"),
        (a64.BTI_C, "hint #34"),
        (a64.BTI_J, "hint #36"),
        (a64.BTI_JC, "hint #38"),
        (a64.PACIASP, "hint #25"),
        (a64.AUTIASP, "hint #29"),
        (a64.SCS_PUSH, "str x30, [x18], #8"),
    ],
)
def test_constants_are_what_the_assembler_says(constant: int, text: str) -> None:
    assert assemble(text) == constant


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("nop", "NOP"), ("b #16", "B"), ("bl #16", "BL"), ("brk #0x800", "BRK"), ("hvc #1", "HVC"), ("isb", "ISB"),
        ("isb #3", "ISB"), ("smc #1", "SMC"), ("svc #1", "SVC"), ("b.eq #8", "B.cond"), ("cbz x3, #8", "CBZ"),
        ("cbnz w3, #8", "CBNZ"), ("tbz x3, #33, #8", "TBZ"), ("tbnz w3, #3, #8", "TBNZ"), ("ret", "RET"),
        ("ret x10", "RET"), ("br x3", "BR"), ("blr x3", "BLR"), ("hint #34", "BTI"),
        ("hint #25", None), ("hint #1", None),
        ("mov x9, x30", None), ("dsb sy", None), ("dmb ish", None), ("eret", None),
    ],
)  # fmt: skip
def test_classes(text: str, name: str | None) -> None:
    assert a64.classify(assemble(text)) == name


@given(st.integers(0, 0xFFFFFFFF))
def test_a_word_is_in_one_class_at_most(word: int) -> None:
    names = [name for name, (mask, value) in CLASSES.items() if word & mask == value]
    assert len(names) <= 1
    assert (names[0] if names else None) == a64.classify(word)


@given(st.sampled_from(["b", "bl"]), st.integers(-(1 << 25), (1 << 25) - 1))
def test_b_and_bl_reach_and_come_back(mnemonic: str, words: int) -> None:
    pc = 0xFFFF800008010000
    word = a64.encode_b(pc, pc + 4 * words, link=mnemonic == "bl")
    assert a64.branch_target(word, pc) == pc + 4 * words
    assert assemble_now(f"{mnemonic} #{4 * words}") == word


@pytest.mark.parametrize("distance", [-(128 << 20) - 4, 128 << 20, 2])
def test_b_out_of_reach_is_refused(distance: int) -> None:
    with pytest.raises(ValueError, match="not reachable"):
        a64.encode_b(1 << 32, (1 << 32) + distance)


@given(
    st.sampled_from([("b.ne", 1 << 18), ("cbz x7,", 1 << 18), ("cbnz w7,", 1 << 18), ("tbz x7, #40,", 1 << 13)]),
    st.data(),
)
def test_conditional_targets(case: tuple[str, int], data: st.DataObject) -> None:
    text, reach = case
    words = data.draw(st.integers(-reach, reach - 1))
    assert a64.branch_target(assemble_now(f"{text} #{4 * words}"), 0x1000000) == 0x1000000 + 4 * words


def test_calls_to_finds_exactly_the_calls() -> None:
    base, target = 0xFFFF800008010000, 0xFFFF800008020000
    words = np.full(64, a64.NOP, "<u4")
    for k in (0, 17, 63):
        words[k] = a64.encode_b(base + 4 * k, target, link=True)
    words[5] = a64.encode_b(base + 20, target + 4, link=True)
    words[6] = a64.encode_b(base + 24, target)
    assert calls_to(words, base, target).tolist() == [0, 17, 63]


@given(st.lists(st.integers(0, 0xFFFFFFFF), max_size=40), st.sampled_from([0, 0x40200000, 0xFFFF800008010000]))
def test_branches_are_those_that_one_by_one_decoding_finds(words: list[int], base: int) -> None:
    index, target = branches(np.array(words, np.uint32), base)
    found = dict(zip(index.tolist(), target.tolist(), strict=True))
    one_by_one = {k: a64.branch_target(word, base + 4 * k) for k, word in enumerate(words)}
    assert found == {k: place for k, place in one_by_one.items() if place is not None}


@pytest.mark.parametrize(
    ("word", "distance"),
    [
        (0xF4080209, 64),  # cbgt x9, x8, #64
        (0x75C2BE09, -64),  # cbeq w9, #5, #-64
        (0x74498048, 8),  # cbbhi w8, w9, #8
        (0xF522A008, -1024),  # cblt x8, #5, #-1024
        (0x54000050, 8),  # bc.eq #8
    ],
)
def test_branches_that_keystone_does_not_know(word: int, distance: int) -> None:
    """Words of LLVM 22."""
    base = 0xFFFF800008010000
    assert a64.branch_target(word, base) == base + distance
    index, target = branches(np.array([word], np.uint32), base)
    assert (index.tolist(), target.tolist()) == ([0], [base + distance])


def test_cmodx_lists() -> None:
    assert listed(a64.NOP)
    assert not listed(a64.BTI_C)
    assert not listed(assemble("hint #1"))
    assert not listed(assemble("b.eq #8"))
    assert listed(assemble("b.eq #8"), "new")
    assert set(NEW_LIST) - set(OLD_LIST) == {"B.cond", "CBZ", "CBNZ", "TBZ", "TBNZ"}


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        ("nop", "bl #64", True), ("bl #64", "nop", True), ("bl #64", "bl #128", True), ("nop", "mov x9, x30", False),
        ("mov x9, x30", "nop", False), ("mov x9, x30", "b #8", False), ("nop", "hint #34", False), ("nop", "nop", True),
        ("hint #25", "hint #25", True), ("nop", "cbz x0, #8", False),
    ],
)  # fmt: skip
def test_judgement(old: str, new: str, *, allowed: bool) -> None:
    verdict = judge(assemble(old), assemble(new))
    assert verdict.allowed is allowed
    assert "Concurrent modification and execution" in verdict.citation
