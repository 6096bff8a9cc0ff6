"""Judges functions that are called: whether they return, and whether a traced function runs."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import U32, U64
from prologue.insn.decode import BL, INDIRECT, RETURN_PC, B, branches, matches
from prologue.kernel.binary import Binary
from prologue.kernel.init_path import veneer_target
from prologue.kernel.text import SlotMap

# BR, BLR, RET, ERET and their kind (Arm ARM, "Unconditional branch (register)"); those like BLR come back.
_BLR: Final = (0xFE600000, 0xD6200000)


class Callee(NamedTuple):
    """A function that is called."""

    returns: bool
    traced: int | None  # address of the traced function that runs: this one, or one that it jumps to at its end


class Callees:
    """Functions of one file, each looked at once."""

    def __init__(self, binary: Binary, traced: U64) -> None:
        """Take the addresses at which a call enters a function with a patch site (``traced``)."""
        self._binary = binary
        self._traced = SlotMap(binary.text, traced)
        self._known: dict[int, Callee | None] = {}

    def find(self, vaddr: int) -> Callee | None:
        """Return what is known of the function there; None if that is no text of this file."""
        if vaddr not in self._known:
            self._known[vaddr] = self._look(vaddr)
        return self._known[vaddr]

    def _look(self, vaddr: int) -> Callee | None:
        """Judge a function: without a RET it does not return, wherever the calls in it lead."""
        if not self._in_text(vaddr):
            return None
        returns, traced = False, vaddr if self._is_traced(vaddr) else None
        todo, seen = [vaddr], set[int]()
        while todo:
            start, words = self._body(todo.pop())
            if start in seen:
                continue
            seen.add(start)
            leaves, targets = self._exits(start, words)
            returns |= leaves or not all(map(self._in_text, targets))
            todo += filter(self._in_text, targets)  # tail calls, a veneer's, and those of parts that were split off
            traced = next(filter(self._is_traced, targets), None) if traced is None else traced
        return Callee(returns, traced)

    def _in_text(self, vaddr: int) -> bool:
        return bool(self._binary.text.in_text(np.array([vaddr], np.uint64))[0])

    def _is_traced(self, vaddr: int) -> bool:
        return bool(self._traced.contains(np.array([vaddr], np.uint64))[0])

    def _body(self, vaddr: int) -> tuple[int, U32]:
        """Return address and words of the function that an address in text is in: from its symbol to the next one."""
        section = self._binary.text.text_map.find(vaddr)
        assert section is not None  # noqa: S101 - the callers looked
        starts = self._binary.symbols.function_starts
        at = int(np.searchsorted(starts, vaddr, side="right"))
        start = max(int(starts[at - 1]), section.addr) if at else section.addr
        stop = min(int(starts[at]) if at < len(starts) else start + section.size, section.addr + section.size)
        words: U32 = self._binary.text.view(section, "<u4")[(start - section.addr) // 4 : (stop - section.addr) // 4]
        return start, words

    def _exits(self, start: int, words: U32) -> tuple[bool, list[int]]:
        """Return whether a body returns, or jumps to an unknown place; and the targets of jumps out of it."""
        index, target = branches(words, start)
        at = np.uint64(start) + index.astype(np.uint64) * np.uint64(4)
        jump = matches(words[index], B)
        target[jump] = self._binary.jump_targets(at[jump], words[index[jump]])
        # A module's jump to another file's function has no target yet, and seems to jump to itself.
        leaves = self._binary.relocatable and bool((target == at)[jump].any())
        outside = ~matches(words[index], BL) & (target - np.uint64(start) >= np.uint64(4 * len(words)))
        targets = target[outside].tolist()
        leaving = (matches(words, INDIRECT) & ~matches(words, _BLR)) | matches(words, RETURN_PC)
        for k in np.flatnonzero(leaving).tolist():
            before = words[max(k - 2, 0) : k + 1].tolist()
            veneer = None if self._binary.relocatable else veneer_target(before, start + 4 * k)
            leaves |= veneer is None
            targets += [] if veneer is None else [veneer]
        return leaves, targets
