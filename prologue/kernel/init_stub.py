"""The ``stock`` contract: how an unmodified kernel's own prologue writing is recognised and neutralised.

``ftrace_init_nop`` (kernel ``arch/arm64/kernel/ftrace.c``, 5.5-7.2) demands a NOP in the first slot and writes
the MOV. With the MOV already there it must not run:

* without CALL_OPS it is made to return 0: ``MOV W0, #0; RET`` over its first two words;
* with CALL_OPS it first writes the site's literal through ``aarch64_insn_write_literal_u64`` and must go on doing
  so. The branch on W0 right after that call chooses between the exit and the MOV writing; it is replaced by
  the one that always leads to the exit (a NOP if the exit is the fall-through, a B if it is the target).

Nothing is guessed: the function is followed branch by branch, it may call only what that source calls, and the
kept path must leave W0 alone and reach RET. Anything else is refused with the disassembly that was found.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import numpy as np

from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbol, Symbols
from prologue.insn import a64
from prologue.insn.disasm import disassemble
from prologue.insn.table import writes
from prologue.kernel.sites import Layout

FUNCTION: Final = "ftrace_init_nop"
LOOP: Final = "arch_ftrace_make_records"  # writes all MOVs in one loop, and calls no ftrace_init_nop: the boot mode
LITERAL_WRITER: Final = "aarch64_insn_write_literal_u64"
TEXT_WRITERS: Final = ("aarch64_insn_patch_text_nosync", "ftrace_modify_code")
HARMLESS: Final = (
    "aarch64_insn_gen_nop",
    "aarch64_insn_gen_hint",
    "aarch64_insn_gen_move_reg",
    "aarch64_insn_read",
)
STACK_CHECK: Final = "__stack_chk_fail"
_LONGEST: Final = 1024  # bytes; the real ones have about 200


class WordEdit(NamedTuple):
    """An instruction of the function: what it must become. ``old`` is None if the original is not known."""

    vaddr: int
    old: int | None
    new: int


class InitStub(NamedTuple):
    """State of ``ftrace_init_nop`` in this file."""

    state: Literal["live", "neutralised", "unfinished", "unrecognised"]
    edits: tuple[WordEdit, ...] = ()
    reason: str = ""
    listing: str = ""  # disassembly, when unrecognised


class _UnrecognisedError(Exception):
    """Carries the reason out of the recogniser."""


class _Function:
    """The words of one function and the names of what it calls."""

    def __init__(self, image: ElfImage, symbols: Symbols, symbol: Symbol) -> None:
        raw = image.read_at(symbol.vaddr, symbol.size)
        if raw is None or (symbol.vaddr | symbol.size) % 4 or not 8 <= symbol.size <= _LONGEST:
            raise _UnrecognisedError(
                f"{FUNCTION} is {symbol.size} bytes at {symbol.vaddr:#x}: not a function that we know"
            )
        self.start = symbol.vaddr
        self.words: list[int] = np.frombuffer(raw, "<u4").tolist()
        self.symbols = symbols
        self._callees: dict[int, str] = {}

    def pc(self, index: int) -> int:
        return self.start + 4 * index

    def index(self, vaddr: int) -> int | None:
        index = (vaddr - self.start) // 4
        return index if 0 <= index < len(self.words) else None

    def callee(self, index: int) -> str:
        """Name of the function that the BL (or B out of the function) calls, compiler suffixes removed."""
        target = a64.branch_target(self.words[index], self.pc(index)) or 0
        if target not in self._callees:  # every walk asks again, and each look-up goes through all symbols
            names = {name.split(".")[0] for name in self.symbols.names_at(target)}
            known = names & {*TEXT_WRITERS, *HARMLESS, LITERAL_WRITER, STACK_CHECK}
            self._callees[target] = min(known or names, default="")
        return self._callees[target]

    def walk(self, begin: int) -> tuple[set[str], set[int], bool]:
        """Follow every path from word ``begin``: names called, words executed, whether it returns.

        Raises:
            _UnrecognisedError: an indirect branch, or a path that leaves the function.

        """
        calls: set[str] = set()
        seen: set[int] = set()
        returns = False
        todo = [begin]
        while todo:
            index = todo.pop()
            if index in seen:
                continue
            if not 0 <= index < len(self.words):
                raise _UnrecognisedError(f"control runs past the end of {FUNCTION}")
            seen.add(index)
            kind = a64.classify(self.words[index])
            if kind in ("BR", "BLR"):
                raise _UnrecognisedError(f"indirect branch at {self.pc(index):#x}")
            if kind == "RET":
                returns = True
                continue
            if kind == "BL":
                name = self.callee(index)
                calls.add(name or f"{a64.branch_target(self.words[index], self.pc(index)):#x}")
                if name != STACK_CHECK:  # it does not return
                    todo.append(index + 1)
                continue
            target = a64.branch_target(self.words[index], self.pc(index))
            if target is not None:
                inside = self.index(target)
                if inside is not None:
                    todo.append(inside)
                elif kind == "B" and self.callee(index):
                    calls.add(self.callee(index))
                    returns = True
                else:
                    raise _UnrecognisedError(f"branch out of the function at {self.pc(index):#x}")
            if kind != "B":
                todo.append(index + 1)
        return calls, seen, returns


def find_init_stub(image: ElfImage, symbols: Symbols, layout: Layout) -> InitStub:
    """Recognise ``ftrace_init_nop`` as live, neutralised, half-neutralised, or not at all."""
    symbol = symbols.find(FUNCTION)
    if symbol is None:
        return InitStub("unrecognised", reason=f"no symbol {FUNCTION}: not a kernel of 5.5 or newer")
    if symbols.find(LOOP) is not None:
        reason = f"ftrace_init writes the MOVs in a loop of its own ({LOOP}): boot it as it is"
        return InitStub("unrecognised", reason=reason)
    try:
        function = _Function(image, symbols, symbol)
        return _recognise_call_ops(function) if layout == "4,2" else _recognise_plain(function)
    except _UnrecognisedError as error:
        raw = image.read_at(symbol.vaddr, min(max(symbol.size, 4), _LONGEST)) or b""
        return InitStub("unrecognised", reason=str(error), listing=disassemble(raw, symbol.vaddr))


def _require_known_calls(calls: set[str], *more: str) -> None:
    strange = calls - {*TEXT_WRITERS, *HARMLESS, STACK_CHECK, *more}
    if strange:
        raise _UnrecognisedError(f"{FUNCTION} calls {', '.join(sorted(strange))}")
    if not calls & set(TEXT_WRITERS):
        raise _UnrecognisedError(f"{FUNCTION} does not call {' or '.join(TEXT_WRITERS)}")


def _recognise_plain(function: _Function) -> InitStub:
    """Plan ``MOV W0, #0; RET`` over the first two words, after a BTI if there is one."""
    words = function.words
    entry = 1 if words[0] & a64.BTI_MASK == a64.BTI else 0
    wanted = (a64.MOV_W0_0, a64.RET)
    if len(words) < entry + 4:
        raise _UnrecognisedError(f"{FUNCTION} is too short")
    done = tuple(words[entry + k] == wanted[k] for k in (0, 1))
    # Once the entry returns, the rest is unreachable: follow it from after the overwritten words.
    begin = entry if not any(done) else entry + 2
    calls, _, returns = function.walk(begin)
    _require_known_calls(calls)
    if not returns:
        raise _UnrecognisedError(f"{FUNCTION} does not return")
    edits = tuple(WordEdit(function.pc(entry + k), None if done[k] else words[entry + k], wanted[k]) for k in (0, 1))
    return InitStub("neutralised" if all(done) else "unfinished" if any(done) else "live", edits)


def _recognise_call_ops(function: _Function) -> InitStub:
    """Find the branch on W0 after the call of the literal writer."""
    words = function.words
    calls = [k for k, w in enumerate(words) if a64.classify(w) == "BL" and function.callee(k) == LITERAL_WRITER]
    if len(calls) != 1 or calls[0] + 2 >= len(words):
        raise _UnrecognisedError(f"{FUNCTION} calls {LITERAL_WRITER} {len(calls)} times, expected once")
    at = calls[0] + 1
    word, pc = words[at], function.pc(at)
    _require_known_calls(_all_calls(function), LITERAL_WRITER)
    before, _, _ = function.walk(0)
    if LITERAL_WRITER not in before:
        raise _UnrecognisedError(f"the call of {LITERAL_WRITER} cannot be reached")
    if word == a64.NOP or a64.classify(word) == "B":
        exit_at = at + 1 if word == a64.NOP else function.index(a64.branch_target(word, pc) or 0)
        if exit_at is None:
            raise _UnrecognisedError(f"branch out of the function at {pc:#x}")
        _require_quiet(function, exit_at)
        return InitStub("neutralised", (WordEdit(pc, None, word),))
    if a64.classify(word) not in ("CBZ", "CBNZ") or word & 0x1F or word >> 31:
        raise _UnrecognisedError(f"no branch on W0 after the call of {LITERAL_WRITER} at {pc:#x}")
    target = a64.branch_target(word, pc) or 0
    inside = function.index(target)
    if inside is None:
        raise _UnrecognisedError(f"branch out of the function at {pc:#x}")
    # The literal writer returns 0 when all is well: CBZ jumps to the MOV writing, CBNZ jumps over it.
    to_exit = at + 1 if a64.classify(word) == "CBZ" else inside
    to_writing = inside if a64.classify(word) == "CBZ" else at + 1
    if not function.walk(to_writing)[0] & set(TEXT_WRITERS):
        raise _UnrecognisedError(f"the success path after {pc:#x} writes no text")
    _require_quiet(function, to_exit)
    new = a64.NOP if to_exit == at + 1 else a64.encode_b(pc, target)
    return InitStub("live", (WordEdit(pc, word, new),))


def _all_calls(function: _Function) -> set[str]:
    return {
        function.callee(k) or f"{a64.branch_target(w, function.pc(k)):#x}"
        for k, w in enumerate(function.words)
        if a64.classify(w) == "BL"
    }


def _require_quiet(function: _Function, begin: int) -> None:
    """Check that the path from ``begin`` returns, calls nothing but the stack check, and leaves W0 as it is."""
    calls, seen, returns = function.walk(begin)
    if calls - {STACK_CHECK} or not returns:
        raise _UnrecognisedError(f"the exit at {function.pc(begin):#x} calls {', '.join(sorted(calls)) or 'nothing'}")
    straight = [k for k in sorted(seen) if a64.classify(function.words[k]) != "BL"]
    for k in straight:
        if 0 in writes(function.words[k]):
            raise _UnrecognisedError(f"the exit writes X0 at {function.pc(k):#x}")
