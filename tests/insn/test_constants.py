"""Constants in registers: what moves make of them is right, and nothing that writes a register leaves it known."""

from __future__ import annotations

import random

import pytest

from prologue.insn.disasm import insn_text, register_use
from prologue.insn.effect import after, taken
from tests.support.assembler import assemble

ALL = dict.fromkeys(range(31), 0)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("mov w5, #1", 1),
        ("mov x5, #0x12340000", 0x12340000),
        ("movz x5, #7, lsl #48", 7 << 48),
        ("mov w5, #-2", 0xFFFFFFFE),
        ("mov x5, #-2", 0xFFFFFFFFFFFFFFFE),
        ("mov w5, wzr", 0),
        ("mov x5, xzr", 0),
    ],
)
def test_moves(text: str, value: int) -> None:
    word = assemble(text)
    assert after(word, {5: 99, 6: 3}) == {5: value, 6: 3}


@pytest.mark.parametrize("text", ["mov w5, w6", "movk w5, #1", "add x5, x5, #1", "orr w5, wzr, #1", "ldr x0, [x5], #8"])
def test_what_is_no_move_of_a_number_forgets(text: str) -> None:
    word = assemble(text)
    assert 5 not in after(word, ALL)


@pytest.mark.parametrize(
    ("word", "written"),
    [
        (0xD5782008, {8, 9}),  # mrrs x8, x9, ttbr0_el1
        (0x48287C82, {8, 9}),  # casp x8, x9, x2, x3, [x4]
        (0x49887C82, {8, 9}),  # caspt x8, x9, x2, x3, [x4]
        (0x19280C82, {8, 9}),  # rcwcasp x8, x9, x2, x3, [x4]
        (0xF83FD124, {4, 5, 6, 7, 8, 9, 10, 11}),  # ld64b x4, [x9]
        (0x99481928, {8}),  # ldiapp w8, w8, [x9]
        (0xDAC1BBFE, {17}),  # autia171615
        (0xDAC11149, {9}),  # autia x9, x10
        (0x1D0804E9, {7, 8, 9}),  # cpyp [x9]!, [x8]!, x7!
        (0xF829B00A, {9}),  # st64bv x9, x10, [x0]
    ],
)
def test_what_capstone_does_not_list_is_forgotten(word: int, written: set[int]) -> None:
    """Words of LLVM 19 and 22."""
    assert not written.intersection(after(word, ALL))


@pytest.mark.thorough
def test_what_is_written_is_forgotten_or_known() -> None:
    """Of random instructions, against capstone's list of what they write; it has CMP and its kind write a register."""
    seed = random.Random(3)  # noqa: S311 - not a secret
    written = 0
    for _ in range(100_000):
        word = seed.getrandbits(32)
        if word >> 26 & 1 and word >> 27 & 1:  # vectors take most of the encodings, and write few general registers
            continue
        text = insn_text(word)
        if text.startswith((".word", "bl ", "blr", "bra", "br ", "cmp", "cmn", "tst", "ccmp", "ccmn")):
            continue
        moves = text.startswith("mov ")
        for register in register_use(word)[1] - {31}:
            written += 1
            left = after(word, ALL)
            assert register not in left or (moves and word & 31 == register), f"{word:08x} {text}"
    assert written > 10_000


@pytest.mark.parametrize("bit", [0, 1, 31, 32, 63])
def test_branches_on_a_bit(bit: int) -> None:
    for text, if_set in ((f"tbnz x3, #{bit}, #8", True), (f"tbz x3, #{bit}, #8", False)):
        word = assemble(text)
        assert taken(word, {3: 1 << bit}) is if_set
        assert taken(word, {3: ~(1 << bit) & (1 << 64) - 1}) is not if_set
        assert taken(word, {4: 0}) is None


@pytest.mark.parametrize(
    ("text", "value", "goes"),
    [
        ("cbz x3, #8", 0, True),
        ("cbz x3, #8", 1 << 32, False),
        ("cbz w3, #8", 1 << 32, True),
        ("cbnz w3, #8", 1, True),
        ("cbnz x3, #8", 0, False),
        ("b.eq #8", 0, None),
    ],
)
def test_branches_on_zero(text: str, value: int, goes: bool | None) -> None:
    word = assemble(text)
    assert taken(word, {3: value}) is goes


def test_the_zero_register_is_always_known() -> None:
    word = assemble("cbz xzr, #8")
    assert taken(word, {}) is True
