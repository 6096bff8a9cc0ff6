"""Whether a kernel's boot still reaches the code that writes its prologues.

``ftrace_init`` calls ``ftrace_process_locs``, and that, through what the compiler left of ``ftrace_update_code`` and
``ftrace_nop_initialize``, ``ftrace_init_nop`` (kernel/trace/ftrace.c, 5.5-7.2). A bench variant cuts this chain.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

import numpy as np

from prologue.arrays import U32
from prologue.elf.symbols import Symbols
from prologue.insn import a64
from prologue.insn.decode import CONTROL, adr_immediate, branches, find
from prologue.sites.init_stub import FUNCTION
from prologue.sites.text import Text

ENTRY: Final = "ftrace_init"
_DEEPEST: Final = 4  # calls from ftrace_init; two or three in the kernels that were seen
_LONGEST: Final = 1 << 14  # bytes of one function


def reaches_init_nop(text: Text, symbols: Symbols) -> bool | None:
    """Whether ``ftrace_init`` can get to ``ftrace_init_nop`` by direct calls; None if one of them has no symbol."""
    entry, wanted = symbols.find(ENTRY), symbols.find(FUNCTION)
    if entry is None or wanted is None:
        return None
    seen, level = {entry.vaddr}, [entry.vaddr]
    for _ in range(_DEEPEST):
        called = {target for vaddr in level for target in _calls(text, symbols, vaddr)}
        if wanted.vaddr in called:
            return True
        level = sorted(called - seen)
        seen |= called
    return False


def _calls(text: Text, symbols: Symbols, start: int) -> set[int]:
    """Where direct calls and tail calls on any path through a function go; a jump table may lead to all of it."""
    words = _words(text, symbols, start)
    leave = find(words, CONTROL).tolist()  # a path goes straight on up to the next of these
    targets = dict(zip(*(ends.tolist() for ends in branches(words, start)), strict=True))
    result: set[int] = set()
    todo, seen = [0], set[int]()
    while todo:
        place = bisect_left(leave, todo.pop())
        if place in seen or place == len(leave):
            continue
        seen.add(place)
        index = leave[place]
        kind, target = a64.classify(int(words[index])), targets.get(index)
        if kind == "BR":
            target = veneer_target(words[: index + 1].tolist(), start + a64.INSN_SIZE * index)
            todo += leave if target is None else ()
        if target is not None:
            inside = (target - start) // a64.INSN_SIZE
            if kind in ("BL", "BR") or not 0 <= inside < len(words):
                result.add(target)
            else:
                todo.append(inside)
        if kind not in ("B", "RET", "BR"):
            todo.append(index + 1)
    return result


def _words(text: Text, symbols: Symbols, start: int) -> U32:
    """The function's words; as many as any has, if its symbol does not say how many: a path ends at a RET anyway."""
    symbol = symbols.function_at(start)
    section = text.text_map.find(start)
    if section is None or start % a64.INSN_SIZE:
        return np.zeros(0, np.uint32)
    size = min(symbol.size if symbol and symbol.size else _LONGEST, _LONGEST, section.addr + section.size - start)
    return np.frombuffer((text.read_at(start, size) or b"")[: size & ~3], "<u4")


def veneer_target(words: list[int], pc: int) -> int | None:
    """Where a linker's veneer for a far call goes: ADRP X16; ADD X16, X16, #lo12; BR X16, which ends ``words``."""
    adrp, add, branch = words[-3:] if len(words) >= 3 else (0, 0, 0)
    if branch != a64.BR_X16 or adrp & 0x9F00001F != 0x90000010 or add & 0xFFC003FF != 0x91000210:
        return None
    pages = int(adr_immediate(np.array([adrp], np.uint32))[0])
    page = (pc - 2 * a64.INSN_SIZE & ~0xFFF) + (pages << 12)
    return page + (add >> 10 & 0xFFF)
