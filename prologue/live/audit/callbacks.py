"""The words that callbacks of alternatives may write, by names of the callbacks.

If a callback computes words from variables that memory has, they must be exactly these; if it computes them from the
machine, they must be of its form. Sources: arch/arm64/kernel/{alternative,proton-pack,mte}.c and
arch/arm64/kvm/va_layout.c and vgic/vgic-v3.c (5.10-7.3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from prologue.insn import a64
from prologue.kernel.tables import PATCHES_NOPS
from prologue.live.structs.variables import Variables

Originals = tuple[int, ...]


class Form(NamedTuple):
    """A form of replaced words: for each word a mask of its fixed bits, and their values."""

    masks: Originals
    values: Originals

    def fits(self, words: Sequence[int]) -> bool:
        """Return whether these words have the form."""
        return len(words) == len(self.values) and all(
            word & mask == value for word, mask, value in zip(words, self.masks, self.values, strict=True)
        )


_FormMaker = Callable[[Originals, Variables], tuple[Form, ...]]
"""Returns the forms that may replace original words, the likeliest first."""

_ALL: Final = 0xFFFFFFFF
_MOVZ, _MOVK, _ORR_W = 0xD2800000, 0xF2800000, 0x32000000
_IMM16: Final = 0xFFFF << 5
_HVC, _SMC, _BR_X0 = 0xD4000002, 0xD4000003, 0xD61F0000
_STP_X0_X1: Final = 0xA9BF07E0  # STP X0, X1, [SP, #-16]!
_RD, _RN = 0x1F, 0x1F << 5
# ORR Wd, WZR, #0x80003fff, ARM_SMCCC_ARCH_WORKAROUND_3 (include/linux/arm-smccc.h): immr 1, imms 14.
_WORKAROUND_3: Final = _ORR_W | 1 << 16 | 14 << 10 | 0x1F << 5


def _exactly(words: Sequence[int]) -> Form:
    return Form((_ALL,) * len(words), tuple(words))


def _keep(original: Originals, _: Variables) -> tuple[Form, ...]:
    return (_exactly(original),)


def _nops(original: Originals, _: Variables) -> tuple[Form, ...]:
    return (_exactly((a64.NOP,) * len(original)),)


def _keep_or_nops(original: Originals, variables: Variables) -> tuple[Form, ...]:
    return _keep(original, variables) + _nops(original, variables)


def _move(register: int, value: int) -> Originals:
    """Return MOVZ and three MOVKs of a 64-bit value."""
    kinds = (_MOVZ, *(_MOVK | k << 21 for k in (1, 2, 3)))
    return tuple(kind | (value >> 16 * k & 0xFFFF) << 5 | register for k, kind in enumerate(kinds))


def _kimage_voffset(original: Originals, variables: Variables) -> tuple[Form, ...]:
    register, value = original[0] & _RD, variables.number("kimage_voffset")
    return (_moves(register, 4),) if value is None else (_exactly(_move(register, value)),)


def _moves(register: int, count: int) -> Form:
    """Return the form of so many instructions that move a value."""
    return Form((_ALL & ~_IMM16,) * count, _move(register, 0)[:count])


def _vector_branch(original: Originals, variables: Variables) -> tuple[Form, ...]:
    """Return forms: kept, or, with ARM64_SPECTRE_V3A, MOVZ, MOVK, MOVK of an address below 1 << 48, BR X0.

    In 5.10, which has five words, STP X0, X1 comes before them (ARM64_HARDEN_EL2_VECTORS).
    """
    saves = (_STP_X0_X1,) * (len(original) - 4)
    masks = (*(_ALL,) * len(saves), *(_ALL & ~_IMM16,) * 3, _ALL)
    return (*_keep(original, variables), Form(masks, (*saves, *_move(0, 0)[:3], _BR_X0)))


def _va_mask(original: Originals, variables: Variables) -> tuple[Form, ...]:
    """Return forms: AND, ROR, ADD, ADD, ROR by mask and tag of va_layout.c; NOPs if the kernel runs at EL2."""
    mask, tag = variables.number("va_mask"), variables.number("tag_val")
    low = variables.number("tag_lsb", 1)
    if mask is None or tag is None or low is None:
        immediates = (0x3FFFFF, 0x3F << 10, 0xFFF << 10, 0xFFF << 10, 0x3F << 10)
        fields = (0x7F << 16 | 0x3F << 10, *immediates[1:])
        masks = tuple(_ALL & ~field for field in fields)
        form = Form(masks, tuple(word & mask_ for word, mask_ in zip(original, masks, strict=True)))
        first_only = Form((masks[0], *(_ALL,) * 4), (form.values[0], *(a64.NOP,) * 4))
        return form, first_only, *_nops(original, variables)
    if not mask:
        return _nops(original, variables)
    # 5.10 computes the layout if the kernel runs at EL2, too.
    unused = () if variables.is_named("kvm_apply_hyp_relocations") else _nops(original, variables)
    both = [word & (_RD | _RN) for word in original]
    ones = mask.bit_length() - 1
    words = [0x92400000 | ones << 10 | both[0]]
    if not tag:
        return (_exactly((*words, *(a64.NOP,) * 4)), *unused)
    again = [(word >> 5 & 0x1F) << 16 for word in original]  # EXTR with one register twice is ROR
    words += [
        0x93C00000 | again[1] | low << 10 | both[1],
        0x91000000 | (tag & 0xFFF) << 10 | both[2],
        0x91400000 | (tag >> 12 & 0xFFF) << 10 | both[3],
        0x93C00000 | again[4] | (64 - low) << 10 | both[4],
    ]
    return (_exactly(words), *unused)


_MAKERS: Final[dict[str, _FormMaker]] = {
    PATCHES_NOPS: _nops,
    "kasan_hw_tags_enable": _keep_or_nops,
    "kvm_compute_final_ctr_el0": lambda old, _: (_moves(old[0] & _RD, 4),),
    "kvm_compute_ich_hcr_trap_bits": lambda old, _: (_moves(old[0] & _RD, 1),),
    "kvm_get_kimage_voffset": _kimage_voffset,
    "kvm_pan_patch_el2_entry": _keep_or_nops,
    # ICH_VTR_EL2, as the machine has it; kept if it has none.
    "kvm_patch_ich_vtr_el2": lambda old, _: (_exactly(old), _moves(old[0] & _RD, 2)),
    "kvm_patch_vector_branch": _vector_branch,
    "kvm_update_va_mask": _va_mask,
    "smccc_patch_fw_mitigation_conduit": lambda old, _: (_exactly(old), _exactly((_HVC,)), _exactly((_SMC,))),
    "spectre_bhb_patch_clearbhb": _keep_or_nops,
    "spectre_bhb_patch_fw_mitigation_enable": _keep_or_nops,
    "spectre_bhb_patch_loop_iter": lambda old, _: (
        _exactly(old), Form((_ALL & ~(0xFF << 5),), (_MOVZ | old[0] & _RD,)),
    ),
    "spectre_bhb_patch_loop_mitigation_enable": _keep_or_nops,
    "spectre_bhb_patch_wa3": lambda old, _: (_exactly(old), _exactly((_WORKAROUND_3 | old[0] & _RD,))),
    "spectre_v4_patch_fw_mitigation_enable": _keep_or_nops,
}  # fmt: skip


def callback_name(names: Sequence[str]) -> str:
    """Return the callback's name among the names of one function; empty if it is no known callback."""
    return next((name for name in names if name in _MAKERS), "")


def forms(name: str, original: Originals, variables: Variables) -> tuple[Form, ...]:
    """Return the forms that a callback of that name may give the original words."""
    return _MAKERS[name](original, variables)
