"""What callbacks of alternatives may write: words as keystone assembles them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from prologue.live.audit.callbacks import callback_name, forms
from prologue.live.structs.variables import Variables
from tests.support.assembler import assemble

VA_MASK = ("and x1, x1, #1", "ror x1, x1, #1", "add x1, x1, #0", "add x1, x1, #0, lsl #12", "ror x1, x1, #63")
MOVES = ("movz x2, #0", "movk x2, #0, lsl #16", "movk x2, #0, lsl #32", "movk x2, #0, lsl #48")
MASKED = "and x1, x1, #0x3fffffffff"
LAYOUT = {"va_mask": (1 << 38) - 1, "tag_val": 0x5ABCDE, "tag_lsb": 38}


class Made(Variables):
    """Variables by name, without memory."""

    def __init__(self, values: Mapping[str, int]) -> None:
        self._values = values

    def number(self, name: str, size: int = 8) -> int | None:
        return self._values.get(name)

    def is_named(self, name: str) -> bool:
        return name in self._values


def words(*lines: str) -> tuple[int, ...]:
    return tuple(assemble(line) for line in lines)


@pytest.mark.parametrize(
    ("name", "original", "written", "variables"),
    [
        ("alt_cb_patch_nops", ("b #8",), ("nop",), {}),
        ("smccc_patch_fw_mitigation_conduit", ("nop",), ("hvc #0",), {}),
        ("spectre_bhb_patch_wa3", ("mov w0, #0",), ("orr w0, wzr, #0x80003fff",), {}),
        ("spectre_bhb_patch_loop_iter", ("mov x9, #0",), ("mov x9, #32",), {}),
        ("kvm_get_kimage_voffset", MOVES,
         ("movz x2, #0x4000", "movk x2, #0x3fff, lsl #16", "movk x2, #0x7fff, lsl #32", "movk x2, #0xffff, lsl #48"),
         {"kimage_voffset": 0xFFFF7FFF3FFF4000}),
        ("kvm_update_va_mask", VA_MASK,
         (MASKED, "ror x1, x1, #38", "add x1, x1, #0xcde", "add x1, x1, #0x5ab, lsl #12", "ror x1, x1, #26"), LAYOUT),
        ("kvm_update_va_mask", VA_MASK, (MASKED, "nop", "nop", "nop", "nop"), LAYOUT | {"tag_val": 0}),
        ("kvm_update_va_mask", VA_MASK, ("nop",) * 5, {"va_mask": 0, "tag_val": 0, "tag_lsb": 0}),
        ("kvm_update_va_mask", VA_MASK, ("nop",) * 5, LAYOUT),
        ("kvm_patch_vector_branch", ("stp x0, x1, [sp, #-16]!", "b #8", "nop", "nop"),
         ("movz x0, #0x1004", "movk x0, #0x2222, lsl #16", "movk x0, #0x33, lsl #32", "br x0"), {}),
    ],
)  # fmt: skip
def test_what_a_callback_writes_has_its_form(
    name: str, original: tuple[str, ...], written: tuple[str, ...], variables: dict[str, int]
) -> None:
    assert callback_name(("__kvm_nvhe_" + name, name)) == name
    may = forms(name, words(*original), Made(variables))
    made = words(*written)
    assert any(form.fits(made) for form in may)
    for at in range(len(made)):
        broken = (*made[:at], made[at] ^ 1 << 31, *made[at + 1 :])
        assert not any(form.fits(broken) for form in may)


def test_a_constant_of_another_variable_is_wrong() -> None:
    may = forms("kvm_get_kimage_voffset", words(*MOVES), Made({"kimage_voffset": 0x1000}))
    assert not any(form.fits(words(*MOVES)) for form in may)


def test_the_layout_of_el2_is_used_where_later_kernels_have_one() -> None:
    """5.10 computes one at EL2, too, where nothing uses it."""
    may = forms("kvm_update_va_mask", words(*VA_MASK), Made(LAYOUT | {"kvm_apply_hyp_relocations": 1}))
    assert not any(form.fits(words(*["nop"] * 5)) for form in may)


def test_unknown_callbacks_have_no_name() -> None:
    assert callback_name(("memcpy",)) == ""
