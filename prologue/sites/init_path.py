"""Whether a kernel's boot still reaches the code that writes its prologues.

``ftrace_init`` calls ``ftrace_process_locs``, and that, through what the compiler left of ``ftrace_update_code`` and
``ftrace_nop_initialize``, ``ftrace_init_nop`` (kernel/trace/ftrace.c, 5.5-7.2). A bench variant cuts this chain.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from prologue.elf.symbols import Symbol, Symbols
from prologue.insn import a64
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
        called = {target for vaddr in level for target in _calls(text, symbols.function_at(vaddr))}
        if wanted.vaddr in called:
            return True
        level = sorted(called - seen)
        seen |= called
    return False


def _calls(text: Text, function: Symbol | None) -> set[int]:
    """Where direct calls and tail calls on any path through a function go; a jump table may lead to all of it."""
    raw = text.read_at(function.vaddr, min(function.size, _LONGEST)) if function else None
    if function is None or not raw:
        return set()
    words = np.frombuffer(raw[: len(raw) & ~3], "<u4").tolist()
    result: set[int] = set()
    todo, seen = [0], set[int]()
    while todo:
        index = todo.pop()
        if index in seen or not 0 <= index < len(words):
            continue
        seen.add(index)
        pc = function.vaddr + a64.INSN_SIZE * index
        kind, target = a64.classify(words[index]), a64.branch_target(words[index], pc)
        if kind == "BR":
            todo += range(len(words))
        if target is not None:
            inside = (target - function.vaddr) // a64.INSN_SIZE
            if kind == "BL" or not 0 <= inside < len(words):
                result.add(target)
            else:
                todo.append(inside)
        if kind not in ("B", "RET", "BR"):
            todo.append(index + 1)
    return result
