"""The masks that look for X9 never overlook a read and never invent a write; paths end where they should."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from prologue.flow.liveness import Liveness
from prologue.insn.disasm import insn_text
from prologue.insn.effect import effect
from prologue.insn.rows import X9, look_over, may_read, must_write
from prologue.kernel.kernel import Kernel
from tests.mini_kernel.build import Spec
from tests.support.assembler import assemble
from tests.support.compare import addresses
from tests.support.elf_edit import edit


def reads_by_its_text(text: str) -> bool:
    """Whether the assembly names X9 among its sources.

    Not capstone's list of registers: it is wrong for aliases such as CMP and UBFX. The text is right.
    """
    mnemonic, _, rest = text.partition(" ")
    operands = rest.split(", ")
    keeps = mnemonic in ("cmp", "cmn", "tst", "ccmp", "ccmn", "movk", "bfi", "bfxil", "bfc", "bfm", "rmif", "setf8")
    branches = re.fullmatch(r"[ct]bn?z|bl?r(a[ab])?|ret|setf16", mnemonic)
    sources = operands if keeps or branches or mnemonic.startswith("aut") else operands[1:]
    return any(re.search(r"\b[wx]9\b", operand) for operand in sources)


INTEGER = (0b1000, 0b1001, 0b0101, 0b1101)


def test_a_9_is_found_in_every_field() -> None:
    fields = (0, 5, 10, 16)
    words = np.random.default_rng(5).integers(0, 1 << 32, 1 << 18, dtype=np.uint32)
    words[: 1 << 16] &= np.uint32(~(31 << 5 | 31 << 10) & 0xFFFFFFFF)
    words[1 << 15 : 1 << 17] |= np.uint32(9 << 5)
    expected = np.zeros(len(words), np.bool_)
    for low in fields:
        expected |= words >> np.uint32(low) & np.uint32(31) == 9
    assert 10_000 < expected.sum() < len(words) - 10_000
    _, found = look_over(words)
    assert addresses(words[expected & ~found]) == []
    assert 1_000 < (found & ~expected).sum() < len(words) / 5  # those that may use what they do not name


def test_real_code_is_decoded_exactly(mini: Callable[[Spec], Path]) -> None:
    """On what compilers make, integer instructions are neither overlooked nor invented."""
    image = Kernel(mini(Spec(compiler="clang", bti=True))).image
    for section in image.text_sections:
        words = image.view(section, "<u4")
        integer = words[np.isin(words >> 25 & 15, INTEGER)]
        for word, maybe in zip(integer.tolist(), may_read(integer, X9).tolist(), strict=True):
            assert maybe == reads_by_its_text(insn_text(word)), insn_text(word)


CASES = {
    "read": ([0x8B090000], True),  # add x0, x0, x9
    "write first": ([0xD2800009, 0x8B090000], False),  # mov x9, #0; add x0, x0, x9
    "write on one path": ([0xB4000040, 0xD2800009, 0x8B090000], True),  # cbz x0, 1f; mov x9, #0; 1: add
    "call first": ([0xD63F0000, 0x8B090000], False),  # blr x0; add x0, x0, x9
    "call that keeps it": (
        [0x94000010, 0x8B090000],
        True,
    ),  # bl of a traced function, and a caller that reads X9 after it
    "return first": ([0xD65F03C0, 0x8B090000], False),
    "read behind a loop": ([0xB4FFFFE0, 0xF90003E9], True),  # 1: cbz x0, 1b-ish; str x9, [sp]
    "insertion": ([0xB3407DE9, 0xB3607CC9, 0x8B090000], False),  # bfxil x9, x15, #0, #32; bfi x9, x6, #32, #32
    "half of it spilt": ([0xB9001BE9, 0xD65F03C0], False),  # str w9, [sp, #24]
    "all of it spilt": ([0xF9000FE9, 0xD65F03C0], True),  # str x9, [sp, #24]
    "pair store": ([0xA90127E8, 0xD65F03C0], True),  # stp x8, x9, [sp, #16]
    # stp x6, x7, [x1, #48]; stp x8, x9, [x1, #64]; stp x10, x11, [x1, #80]: a crash writes down all registers
    "all registers, written down": ([0xA9031C26, 0xA9042428, 0xA9052C2A, 0xD65F03C0], False),
    "all registers, and restored": (  # ..., ldp x8, x9, [x1, #64]
        [0xA9031C26, 0xA9042428, 0xA9052C2A, 0xA9442428, 0xD65F03C0],
        True,
    ),
    "MRS": ([0xD53B4209, 0x8B090000], False),  # mrs x9, nzcv
    "load": ([0xF9400009, 0x8B090000], False),
    "compared": ([0xEB00013F, 0xD65F03C0], True),  # cmp x9, x0
    "through a base": ([0xF9400120], True),  # ldr x0, [x9]
}


@pytest.mark.parametrize("case", CASES)
def test_paths(mini: Callable[[Spec], Path], case: str) -> None:
    code, live = CASES[case]
    vmlinux = mini(Spec())
    with edit(vmlinux) as elf:
        begin = elf.value("work_arguments") + 8
        for k, word in enumerate(code):
            elf.set_word(begin + 4 * k, word)
    kernel = Kernel(vmlinux)
    assert kernel.sites is not None
    found = [kernel.symbols.locate(int(kernel.sites.first[read.site])).symbol for read in Liveness(kernel).at_entries()]
    assert found == (["work_arguments"] if live else [])


@pytest.mark.parametrize(
    ("word", "what"),
    [
        (0xF8290040, "read"),  # ldadd x9, x0, [x2]
        (0xF8200049, "write"),  # ldadd x0, x9, [x2]
        (0xF8E98040, "read"),  # swpal x9, x0, [x2]
        (0x48287C82, "read"),  # casp x8, x9, x2, x3, [x4]
        (0x49887C82, "read"),  # caspt x8, x9, x2, x3, [x4]
        (0x19280C82, "read"),  # rcwcasp x8, x9, x2, x3, [x4]
        (0xF83F9002, "read"),  # st64b x2, [x0]: X2 to X9
        (0xF829B00A, "write"),  # st64bv x9, x10, [x0]: the status
        (0xD5582008, "read"),  # msrr ttbr0_el1, x8, x9
        (0x1D0804E9, "read"),  # cpyp [x9]!, [x8]!, x7!
        (0x1DDF0109, "read"),  # setgop [x9]!, x8!
        (0x1DDF4120, "read"),  # setgom [x0]!, x9!
        (0xDAC10149, "read"),  # pacia x9, x10
        (0x59290409, "read"),  # ldtadd x9, x9, [x0]
        (0x59220409, "write"),  # ldtadd x2, x9, [x0]
        (0xC9897C82, "read"),  # cast x9, x2, [x4]
        (0xC95F7C09, "write"),  # ldtxr x9, [x0]
        (0xC9097C08, "write"),  # sttxr w9, x8, [x0]: the status
        (0x04BF5029, "write"),  # rdvl x9, #1
        (0xF4080209, "read"),  # cbgt x9, x8, #64
        (0x74498048, "read"),  # cbbhi w8, w9, #8
        (0x75C2BE09, "read"),  # cbeq w9, #5, #-64
        (0xD5800121, "read"),  # tchangef x1, x9
        (0xC1223800, "read"),  # fmla za.s[w9, 0, vgx2], {z0.s, z1.s}, z2.s
        (0xD50B7E29, "read"),  # dc civac, x9
    ],
)
def test_what_capstone_does_not_know_of_atomics_and_system_instructions(word: int, what: str) -> None:
    """Words of GNU as and of LLVM 22, which know them, unlike keystone."""
    array = np.array([word], np.uint32)
    assert look_over(array)[1][0]
    if what == "read" or not must_write(array, X9)[0]:
        assert may_read(array, X9)[0]
        assert effect(word) == what


@pytest.mark.parametrize(
    "word",
    [
        0x482A7C82,  # casp x10, x11, x2, x3, [x4]
        0xF83F900A,  # st64b x10, [x0]
        0xF83F9000,  # st64b x0, [x0]: X0 to X7
        0xF8238002,  # swp x3, x2, [x0]
        0xD5582006,  # msrr ttbr0_el1, x6, x7
        0xF380013F,  # autiasppc #-36
        0xF380001F | 9 << 16,
        0xE1002000,  # ldr za[w13, 0], [x0]
        0x75C93E20,  # cbeq w0, #19, ...: the number stands where a register could
    ],
)
def test_what_does_not_use_x9(word: int) -> None:
    words = np.array([word], np.uint32)
    assert not may_read(words, X9)[0] or effect(word) == "neither"
    assert not must_write(words, X9)[0]


def test_an_operation_is_no_register() -> None:
    """SMAX of LDSMAX stands where other instructions have a register, and looks like X16."""
    assert not may_read(np.array([0xF8204041], np.uint32), 16)[0]  # ldsmax x0, x1, [x2]


def test_half_of_x9_that_is_spilled() -> None:
    """An uninitialised half that a compiler stores on the stack: xe.ko of Debian's rt kernel has the STP."""
    for instruction, what in (
        ("str w9, [sp, #0x6c]", "neither"),
        ("stp w9, w5, [sp, #0x6c]", "neither"),
        ("stp w5, w9, [sp, #0x6c]", "neither"),
        ("stp x9, x5, [sp, #0x60]", "read"),
        ("stp w9, w5, [x1, #0x6c]", "read"),
        ("str x9, [sp, #0x68]", "read"),
    ):
        assert effect(assemble(instruction)) == what, instruction
