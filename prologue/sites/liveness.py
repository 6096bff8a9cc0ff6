"""Does a function read X9 before it writes it? Then the MOV that goes before it destroys an input.

A forward walk from behind every pair at once: each path ends where X9 is written, where it
is read, at a call (X9 is the caller's to save: AAPCS64, "General-purpose registers"), at a return, at the BRK of a
BUG, or at an indirect jump, whose targets nobody can tell from the code. Which words may read X9 is first answered
with masks, that say yes too often and never too seldom; ``effect`` then has the last word on the few that they stop
at. It asks capstone about loads, stores and vectors. On integer instructions capstone 5 is wrong about some aliases
(it has CMP write its first operand and UBFX read its destination), but there the masks are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from prologue.elf.image import I64, U32, U64, Bool
from prologue.insn import a64
from prologue.insn.disasm import register_use
from prologue.sites.binary import Binary
from prologue.sites.tables import bug_words

_X9: Final = 9
_CHUNK: Final = 1 << 17  # words classified at once: what fits into a cache is much faster


@dataclass(frozen=True, slots=True)
class Read:
    """A function whose X9 is live at its entry."""

    site: int  # index of the site
    vaddr: int  # where X9 is read
    word: int


class _Text:
    """All text sections side by side, a zero word (UDF) behind each, so that a position is one index."""

    def __init__(self, binary: Binary) -> None:
        sections = [s for s in binary.image.text if s.size >= 4]
        self._starts = np.array([s.addr for s in sections], np.uint64)
        sizes = np.array([s.size // 4 for s in sections], np.int64)
        self._bases = np.concatenate([[0], np.cumsum(sizes + 1)]).astype(np.int64)
        self.words: U32 = np.zeros(int(self._bases[-1]), np.uint32)
        # int32 does: no text has 2**31 instructions. -1 is "nowhere here".
        self.successor = np.full(len(self.words), -1, np.int32)
        for section, base, size in zip(sections, self._bases.tolist(), sizes.tolist(), strict=False):
            self.words[base : base + size] = binary.image.view(section, "<u4")
        for section, base in zip(sections, self._bases.tolist(), strict=False):
            index, target = binary.branches(section)
            self.successor[base + index] = self.position(target)

    def position(self, vaddrs: U64) -> I64:
        """Index of each address, -1 outside of the text."""
        result = np.full(len(vaddrs), -1, np.int64)
        for start, base, stop in zip(self._starts, self._bases[:-1].tolist(), self._bases[1:].tolist(), strict=True):
            offset = vaddrs - start
            inside = offset < np.uint64(4 * (stop - base - 1))
            result[inside] = base + (offset[inside] >> np.uint64(2)).astype(np.int64)
        return result

    def vaddr(self, position: int) -> int:
        """Address of a position."""
        part = int(np.searchsorted(self._bases, position, side="right")) - 1
        return int(self._starts[part]) + 4 * (position - int(self._bases[part]))


def _field(words: U32, low: int) -> U32:
    return words >> np.uint32(low) & np.uint32(31)


def _is(words: U32, mask: int, value: int) -> Bool:
    found: Bool = words & np.uint32(mask) == np.uint32(value)
    return found


def _names_x9(words: U32) -> Bool:
    """Which words have a 9 where an instruction may name a register."""
    result = np.zeros(len(words), np.bool_)
    for low in (0, 5, 10, 16):
        result |= words & np.uint32(31 << low) == np.uint32(_X9 << low)
    return result


def may_read_x9(words: U32) -> Bool:
    """Which words may read X9 or W9: every form whose register fields could say so.

    Groups and fields are those of the Arm ARM, "A64 instruction set encoding" (op0 at bits 28:25).
    """
    rt, rn, rm, ra = (_field(words, low) == np.uint32(_X9) for low in (0, 5, 16, 10))
    immediate = _is(words, 0x1C000000, 0x10000000)
    adr, wide = _is(words, 0x1F000000, 0x10000000), _is(words, 0x1F800000, 0x12800000)
    # MOVK and BFM change part of Rd; EXTR has two sources.
    partly = _is(words, 0x7F800000, 0x72800000) | _is(words, 0x7F800000, 0x33000000)
    extract = _is(words, 0x1F800000, 0x13800000)
    from_immediate = immediate & ~adr & ((rn & ~wide) | (rt & partly) | (rm & extract))

    control = _is(words, 0x1C000000, 0x14000000)
    compare_branch = _is(words, 0x7C000000, 0x34000000)  # CBZ, CBNZ, TBZ, TBNZ
    indirect = _is(words, 0xFE000000, 0xD6000000)
    system_write = _is(words, 0xFFE00000, 0xD5000000)  # MSR and SYS; MRS has bit 21 set
    from_control = control & ((rt & (compare_branch | system_write)) | ((rn | rt) & indirect))

    memory = _is(words, 0x0A000000, 0x08000000)
    unsigned = _is(words, 0x3B000000, 0x39000000)  # the immediate fills bits 21:10
    literal = _is(words, 0x3B000000, 0x18000000)
    general = _is(words, 0x04000000, 0)
    # Only plain loads are known not to read Rt: LDR with an unsigned or signed 9-bit offset.
    load = general & (words >> np.uint32(22) & np.uint32(3) != 0) & (unsigned | _is(words, 0x3B200000, 0x38000000))
    pair_load = general & _is(words, 0x3A400000, 0x28400000)
    rt_read = rt & general & ~load & ~pair_load & ~literal
    other = (ra & ~pair_load & ~unsigned & ~literal) | (rm & ~unsigned & ~literal & ~pair_load)
    from_memory = memory & ((rn & ~literal) | rt_read | other)

    register = _is(words, 0x0E000000, 0x0A000000)
    compares_immediate = _is(words, 0x1FE00800, 0x1A400800)  # CCMP, CCMN with a number where Rm would be
    rmif = _is(words, 0x1FE00400, 0x1A000400)
    from_register = register & (rn | (rm & ~compares_immediate & ~rmif) | (ra & _is(words, 0x1F000000, 0x1B000000)))
    scalable = _is(words, 0x1E000000, 0x04000000) | _is(words, 0x9E000000, 0x80000000)  # SVE, SME
    vector = (_is(words, 0x0E000000, 0x0E000000) | scalable) & (rn | rm | rt)
    result: Bool = from_immediate | from_control | from_memory | from_register | vector
    return result


def must_write_x9(words: U32) -> Bool:
    """Which words, if they do not read X9, certainly write it: the forms that compilers use for temporaries."""
    rd = _field(words, 0) == np.uint32(_X9)
    immediate = _is(words, 0x1C000000, 0x10000000)
    flags_only = _is(words, 0x1FE00000, 0x1A400000) | _is(words, 0x1FE00400, 0x1A000400)  # CCMP, CCMN; RMIF
    register = _is(words, 0x0E000000, 0x0A000000) & ~flags_only
    load = _is(words, 0x3F000000, 0x39000000) & (words >> np.uint32(22) & np.uint32(3) != 0)
    near_load = _is(words, 0x3F200000, 0x38000000) & (words >> np.uint32(22) & np.uint32(3) != 0)
    prefetch = _is(words, 0xFF800000, 0xF9800000) | _is(words, 0xFFA00000, 0xF8800000)
    literal = _is(words, 0xBF000000, 0x18000000)
    pair = _is(words, 0x3E400000, 0x28400000) & (rd | (_field(words, 10) == np.uint32(_X9)))
    mrs = _is(words, 0xFFF00000, 0xD5300000)
    result: Bool = rd & (immediate | register | ((load | near_load) & ~prefetch) | literal | mrs) | pair
    return result


def reads_of_x9(binary: Binary) -> list[Read]:
    """Every site whose function may read X9 before it writes it, with the first such read found."""
    sites = binary.sites
    if sites is None or not len(sites):
        return []
    text = _Text(binary)
    second = text.position(sites.second)
    begin = np.where(second >= 0, second + 1, len(text.words) - 1)  # the last word ends every path
    over, stop = _stops(text, binary, text.position(sites.first))
    seen = np.zeros(len(text.words), np.bool_)
    edges: list[tuple[I64, I64]] = []
    reads: list[int] = []
    todo = np.unique(stop[begin])
    while len(todo):
        seen[todo] = True
        todo = todo[~over[todo]]
        maybe = todo[may_read_x9(text.words[todo])]
        effects = {p: effect(int(text.words[p])) for p in maybe.tolist()}
        reads += [p for p, what in effects.items() if what == "read"]
        ended = np.array([p for p, what in effects.items() if what != "neither"], np.int64)
        going = todo[~np.isin(todo, ended)]
        jump = text.successor[going].astype(np.int64)
        falls = ~_is(text.words[going], 0xFC000000, 0x14000000)  # everything but B goes on
        source = np.concatenate([going[falls], going[jump >= 0]])
        target = stop[np.concatenate([going[falls] + 1, jump[jump >= 0]])]
        edges.append((source, target))
        todo = np.unique(target)
        todo = todo[~seen[todo]]
    return _attribute(text, stop[begin], reads, edges) if reads else []


def _stops(text: _Text, binary: Binary, first: I64) -> tuple[Bool, I64]:
    """Where paths end, and for each position the first one from there on that has to be looked at.

    Nothing happens in between, which makes the walk short.
    """
    over = np.zeros(len(text.words), np.bool_)
    look = text.successor >= 0
    for start in range(0, len(text.words), _CHUNK):
        words = text.words[start : start + _CHUNK]
        part = slice(start, start + len(words))
        over[part] = _ends_path(words)
        look[part] |= _is(words, 0xFC000000, 0x14000000)
        # Few words have a 9 in any register field, and only these need the many masks.
        nine = np.flatnonzero(_names_x9(words))
        may_read = may_read_x9(words[nine])
        over[start + nine[may_read]] = False
        over[start + nine[~may_read & must_write_x9(words[nine])]] = True
        look[start + nine[may_read]] = True
    bugs, is_warning = bug_words(binary)
    over[text.position(bugs[is_warning & binary.image.in_text(bugs)])] = False
    over[first] = True  # another function's pair begins there, and its MOV writes X9
    look |= over
    where = np.where(look, np.arange(len(look)), len(look) - 1)
    return over, np.minimum.accumulate(where[::-1])[::-1]


def effect(word: int) -> Literal["read", "write", "neither"]:
    """What an instruction that may read X9 does with what a caller may have left there.

    Compilers read registers that nobody has written in two ways that mean nothing: they insert one field after
    the other (BFI, BFXIL, MOVK) until all are there, and they spill an ``int`` that is not initialised on every
    path. Nothing that has to keep X9 stores half of it.
    """
    inserts = word & 0x7F800000 == 0x72800000 or (word & 0x7F800000 == 0x33000000 and word >> 5 & 31 != _X9)
    if inserts and word & 31 == _X9:
        return "write"
    if word & 0x1C000000 == 0x10000000 or word & 0x0E000000 == 0x0A000000:
        return "read"  # integer arithmetic: the masks are exact
    if word & 0xFFC003FF == 0xB90003E9:  # STR W9, [SP, #imm]
        return "neither"
    read, written = register_use(word)
    return "read" if _X9 in read else "write" if _X9 in written else "neither"


def _ends_path(words: U32) -> Bool:
    """Calls, BRK, indirect jumps, returns, exception returns, and what is no instruction."""
    call, trap = _is(words, 0xFC000000, 0x94000000), _is(words, *a64.CLASSES["BRK"])
    result: Bool = call | trap | _is(words, 0xFE000000, 0xD6000000) | _is(words, 0xFFFF0000, 0)
    return result


def _attribute(text: _Text, begin: I64, reads: list[int], edges: list[tuple[I64, I64]]) -> list[Read]:
    """Walk back from each read to the functions that reach it."""
    source = np.concatenate([pair[0] for pair in edges])
    target = np.concatenate([pair[1] for pair in edges])
    order = np.argsort(target)
    source, target = source[order], target[order]
    starts = {position: site for site, position in enumerate(begin.tolist())}
    found: dict[int, Read] = {}
    for read in reads:
        todo, seen = [read], {read}
        while todo:
            position = todo.pop()
            if position in starts:
                site = starts[position]
                found.setdefault(site, Read(site, text.vaddr(read), int(text.words[read])))
            low, high = np.searchsorted(target, position), np.searchsorted(target, position, side="right")
            fresh = set(source[low:high].tolist()) - seen
            seen |= fresh
            todo += fresh
    return [found[site] for site in sorted(found)]
