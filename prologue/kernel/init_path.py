"""The functions that a kernel's boot reaches from ``ftrace_init``, and whether one of them writes prologues.

``ftrace_init`` calls ``ftrace_process_locs``, and that, through what the compiler left of ``ftrace_update_code`` and
``ftrace_nop_initialize``, ``ftrace_init_nop`` (kernel/trace/ftrace.c, 5.5-7.2). A bench variant cuts this chain.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import U32
from prologue.elf.symbols import Symbols
from prologue.insn import a64
from prologue.insn.decode import CONTROL, adr_immediate, branches, find
from prologue.kernel.init_stub import FUNCTION
from prologue.kernel.text import Text

ENTRY: Final = "ftrace_init"
_DEEPEST: Final = 4  # calls from ftrace_init; two or three in the kernels that were seen
_LONGEST: Final = 1 << 14  # bytes of one function


class ReachedFunction(NamedTuple):
    """A function's code that can run: where it begins, runs of instructions (start, stop), where calls go."""

    start: int
    runs: list[tuple[int, int]]
    targets: set[int]


def reaches_init_nop(text: Text, symbols: Symbols) -> bool | None:
    """Return whether ``ftrace_init`` can get to ``ftrace_init_nop`` by direct calls; None if one of them has no symbol.

    The compiler's copies of it count, as GCC makes them for the one caller that has no module (.constprop.0).
    """
    entry, functions = symbols.find(ENTRY), symbols.with_prefix(FUNCTION)
    wanted = {function.vaddr for function in functions if function.name.partition(".")[0] == FUNCTION}
    if entry is None or not wanted:
        return None
    return any(wanted & function.targets for function in reached(text, symbols, entry.vaddr, _DEEPEST))


def reached(text: Text, symbols: Symbols, entry: int, deepest: int, most: int = 1 << 20) -> Iterator[ReachedFunction]:
    """Yield the functions that direct calls, nested or not, get to from ``entry``: the nearest first, each once.

    Args:
        text: where the code is.
        symbols: what says how long functions are.
        entry: where the first one begins.
        deepest: levels of functions.
        most: functions.

    """
    seen, level = {entry}, [entry]
    for _ in range(deepest):
        called = set[int]()
        for vaddr in level[:most]:
            function = _reached(text, symbols, vaddr)
            yield function
            called |= function.targets
        most = max(most - len(level), 0)
        level = sorted(called - seen)
        seen |= called


def _reached(text: Text, symbols: Symbols, start: int) -> ReachedFunction:
    """Follow every path through a function; a jump table may lead to all of it."""
    words = _words(text, symbols, start)
    leave = find(words, CONTROL).tolist()  # a path goes straight on up to the next of these
    targets = dict(zip(*(ends.tolist() for ends in branches(words, start)), strict=True))
    result = ReachedFunction(start, [], set())
    todo, seen = [0], set[int]()
    while todo:
        begin = todo.pop()
        place = bisect_left(leave, begin)
        if place == len(leave):
            continue
        index = leave[place]
        result.runs.append((start + a64.INSN_SIZE * begin, start + a64.INSN_SIZE * (index + 1)))
        if place in seen:
            continue
        seen.add(place)
        kind, target = a64.classify(int(words[index])), targets.get(index)
        if kind == "BR":
            target = veneer_target(words[: index + 1].tolist(), start + a64.INSN_SIZE * index)
            todo += [k + 1 for k in leave] if target is None else ()
        if target is not None:
            inside = (target - start) // a64.INSN_SIZE
            if kind in ("BL", "BR") or not 0 <= inside < len(words):
                result.targets.add(target)
            else:
                todo.append(inside)
        if kind not in ("B", "RET", "BR"):
            todo.append(index + 1)
    return result


def _words(text: Text, symbols: Symbols, start: int) -> U32:
    """Read the function's words: ``_LONGEST`` bytes if its symbol has no size, since each path ends at a RET."""
    symbol = symbols.function_at(start)
    section = text.text_map.find(start)
    if section is None or start % a64.INSN_SIZE:
        return np.zeros(0, np.uint32)
    size = min(symbol.size if symbol and symbol.size else _LONGEST, _LONGEST, section.addr + section.size - start)
    return np.frombuffer((text.read_at(start, size) or b"")[: size & ~3], "<u4")


def veneer_target(words: list[int], pc: int) -> int | None:
    """Return the target of a far call's veneer that ends ``words``: ADRP X16; ADD X16, X16, #lo12; BR X16."""
    adrp, add, branch = words[-3:] if len(words) >= 3 else (0, 0, 0)
    if branch != a64.BR_X16 or adrp & 0x9F00001F != 0x90000010 or add & 0xFFC003FF != 0x91000210:
        return None
    pages = int(adr_immediate(np.array([adrp], np.uint32))[0])
    page = (pc - 2 * a64.INSN_SIZE & ~0xFFF) + (pages << 12)
    return page + (add >> 10 & 0xFFF)
