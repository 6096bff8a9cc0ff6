"""Decides what a kprobe does with an instruction: masks over arrays of words, as in the kernel.

The kernel steps a copy of the instruction out of line, simulates it, or refuses it. The decision is that of
``arm_kprobe_decode_insn`` (arch/arm64/kernel/probes/decode-insn.c), with the masks of arch/arm64/include/asm/insn.h,
compared in 6.1.192, 6.12.107 and 7.2.13. Masks are the kernel's, even if the Arm ARM would have others.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from prologue.arrays import U32, Bool
from prologue.errors import InputError
from prologue.insn import a64
from prologue.insn.decode import ADR, ADRP, BL, CB, CONTROL, TB, B, Pattern, field, matches
from prologue.insn.table import pattern
from prologue.kernel.kernel import Kernel
from prologue.releases import DECODES_MOPS, OLDEST, PROBES_COMPARED, TELLS_EXCLUSIVES

Outcomes = npt.NDArray[np.uint8]

REFUSED: Final = 1
STEPPED: Final = 2
SIMULATED: Final = 4
"""What may come of a word, one bit each: a word that boot replaces has several."""

MAX_ATOMIC_CONTEXT: Final = 32  # words; MAX_ATOMIC_CONTEXT_SIZE in arch/arm64/kernel/probes/decode-insn.h
OLD_EXCLUSIVE: Final = 0x3F400000  # the mask of LDXR and STXR up to 6.12.107: takes LDAR and STLR for them
NEW_EXCLUSIVE: Final = 0x3FC00000  # 7.2.13: bit 23 tells them apart


class Decoding(NamedTuple):
    """Differences between kernels."""

    exclusive: int = NEW_EXCLUSIVE
    simulates_nop: bool = True  # 7.2.13; a NOP is stepped in 6.1.192 and 6.12.107
    knows_mops: bool = True  # CPY and SET are refused, BC.cond is a branch: 6.12.107 and 7.2.13, not 6.1.192


_MRS: Final[Pattern] = (0xFFF00000, 0xD5300000)
_DAIF: Final = 0xDA11  # op0:op1:CRn:CRm:op2 at bits 20:5, AARCH64_INSN_SPCLREG_DAIF
_HINT: Final[Pattern] = (0xFFFFF01F, 0xD503201F)
# CRm:op2 of the hints that are stepped: NOP, XPACLRI, PACIA1716, PACIB1716, PACIAZ, PACIASP, PACIBZ, PACIBSP, BTI
_STEPPED_HINTS: Final = (0x00, 0x07, 0x08, 0x0A, 0x18, 0x19, 0x1A, 0x1B, 0x20, 0x22, 0x24, 0x26)
_EXCLUSIVE: Final[Pattern] = (0x3F800000, 0x08000000)
_MOPS: Final[Pattern] = (0x3B200C00, 0x19000400)
_PRFM_LITERAL: Final[Pattern] = (0xFF000000, 0xD8000000)
_LDR_LITERAL: Final[tuple[Pattern, ...]] = ((0xBF000000, 0x18000000), (0xFF000000, 0x98000000))  # LDR, LDRSW
_PLAIN_BRANCHES: Final[tuple[Pattern, ...]] = (
    B, BL, CB, TB,
    pattern("RET"), pattern("BR"), pattern("BLR"),
)  # fmt: skip
# Of branches, exceptions and system instructions, what can be neither stepped nor simulated, and why.
_NEVER: Final[tuple[tuple[str, Pattern], ...]] = (
    ("an exception-generating instruction", (0xFF000000, 0xD4000000)),
    ("a write of a system register", (0xFFF00000, 0xD5100000)),
    ("a write of PSTATE", (0xFFF8F01F, 0xD500401F)),
    ("an exception return", (0xFFFFFFFF, 0xD69F03E0)),
    ("an exception return", (0xFFFFFBFF, 0xD69F0BFF)),
    ("a branch with pointer authentication", (0xFFFFFBFF, 0xD65F0BFF)),
    ("a branch with pointer authentication", (0xFEFFF800, 0xD61F0800)),
    ("a branch with pointer authentication", (0xFEFFF800, 0xD63F0800)),
)
_DECODER: Final = "arm_kprobe_decode_insn"
# How a compiler loads each mask (Arm ARM, "MOVZ", "AND (immediate)"): (mask, value) of the instruction, registers left
# out. 0x3F400000 is no bit mask that AND could hold, 0x3FC00000 is.
_LOADS_OLD: Final = (0xFFFFFFE0, 0x52800000 | 1 << 21 | 0x3F40 << 5)
_HOLDS_NEW: Final = (0xFFFFFC00, 0x12000000 | 10 << 16 | 7 << 10)


def decoding_of(kernel: Kernel) -> Decoding:
    """Find out how this kernel decodes the instruction under a probe.

    Raises:
        InputError: no kprobes, a release that is unknown, or one before 5.5, whose ftrace has no second slots.

    """
    if kernel.symbols.find("register_kprobe") is None:
        raise InputError("has no kprobes: built without CONFIG_KPROBES", path=kernel.path)
    if kernel.version is None:
        raise InputError("its release is unknown (no linux_banner), and so are its rules for kprobes", path=kernel.path)
    if kernel.version < OLDEST:
        raise InputError(f"is {kernel.release}: kprobes are judged for 5.5 and newer", path=kernel.path)
    return Decoding(
        exclusive=_exclusive_mask(kernel, kernel.version),
        simulates_nop=kernel.symbols.find("simulate_nop") is not None,
        knows_mops=kernel.version >= DECODES_MOPS,
    )


def rules_of(kernel: Kernel) -> tuple[int, int]:
    """Return the newest compared release that is not newer than the kernel; for older kernels the oldest."""
    version = kernel.version or PROBES_COMPARED[0]
    return max((release for release in PROBES_COMPARED if release <= version), default=PROBES_COMPARED[0])


def _exclusive_mask(kernel: Kernel, version: tuple[int, int]) -> int:
    """Find the mask that tells LDXR and STXR: in the decoder, which inlines it, otherwise by the release."""
    symbol = kernel.symbols.function_at(decoder.vaddr) if (decoder := kernel.symbols.find(_DECODER)) else None
    code = kernel.image.read_at(symbol.vaddr, symbol.size & ~3) if symbol else None
    words = np.frombuffer(code or b"", "<u4")
    for (mask, value), meaning in ((_LOADS_OLD, OLD_EXCLUSIVE), (_HOLDS_NEW, NEW_EXCLUSIVE)):
        if (words & np.uint32(mask) == np.uint32(value)).any():
            return meaning
    return NEW_EXCLUSIVE if version >= TELLS_EXCLUSIVES else OLD_EXCLUSIVE


def outcomes(words: U32, decoding: Decoding) -> Outcomes:
    """Return what the kernel does with a probe on each word, by the word alone: one bit each; shape of ``words``."""
    conditional: Pattern = (0xFF000000 if decoding.knows_mops else 0xFF000010, 0x54000000)
    branch = _match_any(words, (*_PLAIN_BRANCHES, conditional))
    literal = _match_any(words, _LDR_LITERAL)
    address = matches(words, ADR) | matches(words, ADRP)
    control = matches(words, CONTROL)  # class_branch_sys
    never = _match_any(words, tuple(encoding for _, encoding in _NEVER)) | _unsteppable_hint(words)
    # DAIF is the only register whose MRS is not stepped: the source's comment says the opposite.
    never |= matches(words, _MRS) & (field(words, 5, 16) == np.uint32(_DAIF))
    memory = literal | address | matches(words, _PRFM_LITERAL) | matches(words, _EXCLUSIVE)
    if decoding.knows_mops:
        memory |= matches(words, _MOPS)
    steppable = np.where(control, ~(never | branch), ~memory)
    simulated = literal | (~steppable & (branch | address))
    if decoding.simulates_nop:
        simulated |= words == np.uint32(a64.NOP)
    result: Outcomes = np.where(simulated, SIMULATED, np.where(steppable, STEPPED, REFUSED)).astype(np.uint8)
    return result


def exclusives(words: U32, decoding: Decoding) -> tuple[Bool, Bool]:
    """Return which words begin an exclusive sequence in the kernel's eyes (LDXR), and which end one (STXR)."""
    return matches(words, (decoding.exclusive, 0x08400000)), matches(words, (decoding.exclusive, 0x08000000))


def why_refused(word: int) -> str:
    """Return the reason why the kernel refuses a word that ``outcomes`` says it refuses."""
    for reason, (mask, value) in _NEVER:
        if word & mask == value:
            return reason
    array = np.array([word], np.uint32)
    if matches(array, _HINT).any():
        return "a hint that is not on the kernel's list of steppable ones"
    if matches(array, _MRS).any():
        return "a read of DAIF"
    if matches(array, _EXCLUSIVE).any():
        return "an exclusive load or store"
    if matches(array, _PRFM_LITERAL).any():
        return "a prefetch of a literal"
    return "a memory copy or set instruction"


def _match_any(words: U32, patterns: tuple[Pattern, ...]) -> Bool:
    matching = np.zeros(words.shape, np.bool_)
    for encoding in patterns:
        matching |= matches(words, encoding)
    return matching


def _unsteppable_hint(words: U32) -> Bool:
    hint = matches(words, _HINT)
    stepped = np.zeros(128, np.bool_)
    stepped[list(_STEPPED_HINTS)] = True
    result: Bool = hint & ~stepped[field(words, 5, 7)]
    return result
