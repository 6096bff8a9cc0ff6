"""Addresses that ADR and ADRP form, and how long their registers keep them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import I64, U32, U64
from prologue.insn.decode import ADR_OR_ADRP, ADRP, adr_immediate, field, find, matches
from prologue.insn.table import FlowKind, registers, row_of

_SAVED: Final = 19  # registers below may be changed by a call (AAPCS64, "General-purpose registers")


class FormedAddresses(NamedTuple):
    """Instructions that form addresses, ascending: where in the text, register, value; arrays of shape (n,)."""

    at: I64
    register: U32
    value: U64


def adrs(words: U32, base: np.uint64) -> tuple[FormedAddresses, FormedAddresses]:
    """Find every ADR, and every ADRP, of the words from address ``base`` on."""
    index = find(words, ADR_OR_ADRP)
    is_page = matches(words[index], ADRP)
    return _adr(words, base, index[~is_page], page=False), _adr(words, base, index[is_page], page=True)


def _adr(words: U32, base: np.uint64, index: I64, *, page: bool) -> FormedAddresses:
    pc = base + index.astype(np.uint64) * np.uint64(4)
    distance = adr_immediate(words[index])
    if page:
        pc, distance = pc & ~np.uint64(0xFFF), distance << 12
    return FormedAddresses(index, field(words[index], 0), pc + distance.view(np.uint64))


def surely_writes(word: int, register: int) -> bool:
    """Return whether an instruction, or the function that it calls, writes a register."""
    row = row_of(word)
    if register < _SAVED and row.flow in (FlowKind.BL, FlowKind.CALL):
        return True
    return "?" not in row.writes and register in registers(word, row.writes)
