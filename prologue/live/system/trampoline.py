"""The kernel's entry trampoline of KPTI: the only text of the kernel that is mapped while user space runs.

Its address (``TRAMP_VALIAS``, arch/arm64/include/asm/fixmap.h in 7.2, kernel/asm-offsets.c in 6.1) is a slot of the
fixmap, the same wherever KASLR puts the kernel. No symbol has it; ``ret_to_user`` makes it and branches there.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from prologue.arrays import U32
from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols
from prologue.insn.decode import ADD_IMM, ADRP, Pattern, adr_immediate
from prologue.insn.effect import after
from prologue.insn.table import pattern
from prologue.live.memory.ranges import PAGE, TOP

_FROM: Final = "ret_to_user"
# tramp_exit since 6.4; before, one for each kind of process (arch/arm64/kernel/entry.S).
_EXITS: Final = ("tramp_exit", "tramp_exit_native")
_BR: Final[Pattern] = pattern("BR")
_MOVK: Final[Pattern] = (0xFF800000, 0xF2800000)  # of 64 bits
_ADD: Final[Pattern] = (0xFFE0FC00, 0x8B000000)  # ADD and SUB of registers, not shifted
_SUB: Final[Pattern] = (0xFFE0FC00, 0xCB000000)
_MOST: Final = 1 << 14  # bytes of ret_to_user, which has some hundreds: more is a damaged size


def find_trampoline(image: ElfImage, symbols: Symbols) -> tuple[int, int, int] | None:
    """Find the trampoline: its first address and its end as linked, and the address at which it runs.

    None if the kernel has none, or if its code does not show the address.
    """
    start, end = symbols.find("__entry_tramp_text_start"), symbols.find("__entry_tramp_text_end")
    code = symbols.find(_FROM)
    if start is None or end is None or code is None or code.size > _MOST:
        return None
    targets = _branches(_words(image, code.vaddr, code.size), code.vaddr)
    for name in _EXITS:
        leave = symbols.find(name)
        for target in targets if leave else ():
            runs = target - (leave.vaddr - start.vaddr) & TOP if leave else 0
            if runs % PAGE == start.vaddr % PAGE == 0:
                return start.vaddr, end.vaddr, runs
    return None


def _words(image: ElfImage, vaddr: int, size: int) -> U32:
    for section in image.text_sections:
        at = vaddr - section.addr
        if at >= 0 and at + size <= section.size and not at % 4:
            words: U32 = image.view(section, "<u4")[at // 4 : (at + size) // 4]
            return words
    return np.zeros(0, np.uint32)


def _branches(words: U32, base: int) -> list[int]:
    """Find the targets of BRs whose register the code itself gave an address, from first to last instruction."""
    known, targets = dict[int, int](), list[int]()
    for k, word in enumerate(words.tolist()):
        if _is(word, _BR) and word >> 5 & 31 in known:
            targets.append(known[word >> 5 & 31])
        value = _value(word, base + 4 * k, known)
        known = after(word, known)
        if value is not None:
            known[word & 31] = value & TOP
    return targets


def _value(word: int, vaddr: int, known: dict[int, int]) -> int | None:
    """Return the address that an instruction writes into its Rd; ``constants.after`` knows MOVZ and MOVN."""
    rd, rn, rm = known.get(word & 31), known.get(word >> 5 & 31), known.get(word >> 16 & 31)
    if _is(word, _MOVK) and rd is not None:
        shift = 16 * (word >> 21 & 3)
        return rd & ~(0xFFFF << shift) | (word >> 5 & 0xFFFF) << shift
    if _is(word, ADRP):
        return (vaddr & -PAGE) + int(adr_immediate(np.array([word], np.uint32))[0]) * PAGE
    if _is(word, ADD_IMM) and rn is not None:
        return rn + (word >> 10 & 0xFFF)
    if rn is None or rm is None:
        return None
    return rn + rm if _is(word, _ADD) else rn - rm if _is(word, _SUB) else None


def _is(word: int, pattern: Pattern) -> bool:
    return word & pattern[0] == pattern[1]
