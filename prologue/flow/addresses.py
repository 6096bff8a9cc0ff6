"""Addresses that code forms: ADR; ADRP, an ADD, and perhaps another ADD; a load from a literal pool."""

from __future__ import annotations

from typing import Final

import numpy as np

from prologue.arrays import I64, U32
from prologue.insn import a64
from prologue.insn.decode import ADD_IMM, LDR_LITERAL, FormedAddresses, adrs, field, find, signed
from prologue.insn.table import surely_writes
from prologue.kernel.binary import Binary
from prologue.kernel.text import SlotMap

# Instructions between two that belong together. Schedulers put them close, and a base that is kept for a whole function
# serves many; beyond that, another function begins.
_NEAR: Final = 1024
_IMM12: Final = 1 << 12  # an ADD adds less than this
_ByRegister = list[I64]  # where, ascending, for each register


def find_formed(binary: Binary, wanted: SlotMap) -> list[tuple[int, int]]:
    """Find the instructions of a vmlinux that form one of the wanted addresses.

    Data in text is left out. An ADD counts with the last instruction before it that formed its source's value, if no
    instruction between the two writes that register.

    Returns:
        (address of the instruction, address that it forms).

    """
    result: list[tuple[int, int]] = []
    for section in binary.text.text_sections:
        words = binary.text.view(section, "<u4")
        base = np.uint64(section.addr)
        adds = _by_source(words, find(words, ADD_IMM))
        near, far = adrs(words, base)
        pages = _into_text(binary, far, adds=2)
        sums = _sums(words, adds, pages)
        bases = _into_text(binary, sums, adds=1)
        again = _sums(words, adds, bases)
        chains: dict[int, tuple[FormedAddresses, ...]] = {1: (pages,), 2: (bases, pages)}
        for step, made in enumerate((near, sums, again, _literals(binary, words, base))):
            hit = np.flatnonzero(wanted.contains(made.value))
            vaddrs = base + made.at[hit].astype(np.uint64) * np.uint64(4)
            code = binary.is_code(vaddrs) if len(hit) else np.zeros(0, np.bool_)
            for k in np.flatnonzero(code).tolist():
                start = _start(binary, base, vaddrs[k])
                place = (words, int(made.at[hit[k]]), chains.get(step, ()), start)
                if _intact(*place):
                    result.append((int(vaddrs[k]), int(made.value[hit[k]])))
    return result


def _literals(binary: Binary, words: U32, base: np.uint64) -> FormedAddresses:
    """Find LDR Xt, label, with the address that the literal will hold."""
    index = find(words, LDR_LITERAL)
    places = base + (index + signed(words[index], 5, 19)).astype(np.uint64) * np.uint64(4)
    return FormedAddresses(index, field(words[index], 0), binary.absolute64(places) if len(index) else places)


def _into_text(binary: Binary, made: FormedAddresses, *, adds: int) -> FormedAddresses:
    """Keep the addresses from which so many ADDs can reach text: most are of data, and need not be followed.

    Where one of data is left out that writes the same register later, ``_intact`` will see it.
    """
    reach, text = np.uint64(adds * _IMM12), binary.text.text_map.sections
    starts = np.array([s.addr for s in text], np.uint64)
    ends = np.array([s.addr + s.size for s in text], np.uint64)
    # The first section that does not end at or before the address is the nearest one above.
    nearest = np.minimum(np.searchsorted(ends, made.value, side="right"), len(text) - 1)
    near = made.value + reach - starts[nearest] < ends[nearest] - starts[nearest] + reach
    return FormedAddresses(made.at[near], made.register[near], made.value[near])


def _by_source(words: U32, adds: I64) -> _ByRegister:
    """Group ADDs by the register that they add to."""
    register = field(words[adds], 5).astype(np.uint8)  # numpy sorts bytes by radix
    order = np.argsort(register, kind="stable")
    return np.split(adds[order], np.searchsorted(register[order], np.arange(1, 32)))


def _sums(words: U32, adds: _ByRegister, sources: FormedAddresses) -> FormedAddresses:
    """Find every ADD that may add to one of the sources, and the address that both form."""
    index, before = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for number, wanting in enumerate(adds):  # both lists ascend, so that the search goes through memory in order
        adding = np.flatnonzero(sources.register == number)
        if not len(adding):
            continue
        place = np.searchsorted(sources.at[adding], wanting) - 1
        usable = place >= 0
        last = adding[place[usable]]
        near = wanting[usable] - sources.at[last] < _NEAR
        index.append(wanting[usable][near])
        before.append(last[near])
    sums, source = np.concatenate(index), np.concatenate(before)
    order = np.argsort(sums)
    sums, source = sums[order], source[order]
    return FormedAddresses(
        sums, field(words[sums], 0), sources.value[source] + field(words[sums], 10, 12).astype(np.uint64)
    )


def _start(binary: Binary, base: np.uint64, vaddr: np.uint64) -> int:
    """Return the index of the first instruction of the function that an address is in."""
    starts = binary.symbols.function_starts
    at = int(np.searchsorted(starts, vaddr, side="right")) - 1
    return max((int(starts[at]) - int(base)) // a64.INSN_SIZE, 0) if at >= 0 else 0


def _intact(words: U32, index: int, chain: tuple[FormedAddresses, ...], start: int) -> bool:
    """Return whether the register that an ADD reads still holds the address that a source put there."""
    if not chain:
        return True
    makers, register = chain[0], int(words[index]) >> 5 & 31
    # The last one before it that names the register; _sums saw to it that there is one.
    last = int(np.searchsorted(makers.at, index)) - 1
    while last >= 0 and makers.register[last] != register:
        last -= 1
    for k in range(index - 1, max(index - _NEAR, start) - 1, -1):
        if last >= 0 and k == makers.at[last]:
            return _intact(words, k, chain[1:], start)
        if surely_writes(int(words[k]), register):
            return False
    return False
