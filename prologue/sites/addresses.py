"""Addresses that code makes with ADR, or with ADRP and an ADD after it."""

from __future__ import annotations

from typing import Final

import numpy as np

from prologue.arrays import I64, U32, U64
from prologue.insn.decode import ADD_IMM, ADR, ADRP, adr_immediate, field, find
from prologue.insn.disasm import registers_written
from prologue.sites.binary import Binary
from prologue.sites.slotmap import SlotMap

_NEAR: Final = 64  # instructions: schedulers put an ADD close after its ADRP


def made_in_code(binary: Binary, wanted: SlotMap) -> list[tuple[int, int]]:
    """Instructions of a vmlinux that make one of the wanted addresses.

    Data in text is left out. An ADD counts with the last ADRP before it that writes its source register, if no
    instruction between the two writes that register.

    Returns:
        (address of the ADR or ADD, address that it makes).

    """
    result: list[tuple[int, int]] = []
    for section in binary.text.text_sections:
        words = binary.text.view(section, "<u4")
        base = np.uint64(section.addr)
        adr = find(words, ADR)
        pc = base + adr.astype(np.uint64) * np.uint64(4)
        found = [(adr, pc + adr_immediate(words[adr]).view(np.uint64))]
        found.append(_pairs(words, base))
        for index, target in found:
            hit = np.flatnonzero(wanted.contains(target))
            hit = hit[np.argsort(index[hit])]
            vaddrs = base + index[hit].astype(np.uint64) * np.uint64(4)
            code = binary.is_code(vaddrs) if len(hit) else np.zeros(0, np.bool_)
            for k in np.flatnonzero(code).tolist():
                if _intact(words, int(index[hit[k]])):
                    result.append((int(vaddrs[k]), int(target[hit[k]])))
    return result


def _pairs(words: U32, base: np.uint64) -> tuple[I64, U64]:
    """Index of every ADD that may complete an ADRP, and the address that both make."""
    adrp, add = find(words, ADRP), find(words, ADD_IMM)
    if not len(adrp) or not len(add):
        return np.zeros(0, np.int64), np.zeros(0, np.uint64)
    register = field(words[adrp], 0)
    source = field(words[add], 5)
    found: list[tuple[I64, I64]] = []
    for number in range(32):  # both lists ascend, so that the search goes through memory in order
        mine, wanting = adrp[register == number], add[source == number]
        at = np.searchsorted(mine, wanting) - 1
        usable = at >= 0
        last = mine[at[usable]]
        near = wanting[usable] - last < _NEAR
        found.append((wanting[usable][near], last[near]))
    add, before = (np.concatenate(column) for column in zip(*found, strict=True))
    page = (base + before.astype(np.uint64) * np.uint64(4)) & ~np.uint64(0xFFF)
    page += (adr_immediate(words[before]) << 12).view(np.uint64)
    return add, page + field(words[add], 10, 12).astype(np.uint64)


def _intact(words: U32, index: int) -> bool:
    """Whether the register that an ADD reads still holds what its ADRP wrote; true for an ADR."""
    word = int(words[index])
    if word & ADD_IMM[0] != ADD_IMM[1]:
        return True
    source = word >> 5 & 31
    for k in range(index - 1, max(index - _NEAR, -1), -1):
        between = int(words[k])
        if between & ADRP[0] == ADRP[1] and between & 31 == source:
            return True
        if source in registers_written(between):
            return False
    return False
