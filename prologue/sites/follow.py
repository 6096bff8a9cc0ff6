"""Follows functions of the kernel on every path that partly known values allow.

One state is kept for each place where paths meet, and it holds what is known on all of them. Jump labels and
alternatives may stand either way. Some functions are followed as well when they are called. Of all others it is
assumed that they keep the registers that AAPCS64 says, and that they change no memory that is known here but for 16
bytes from any stack address that they are given: what these functions pass that way are words.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from typing import Final, NamedTuple

from prologue.insn import a64
from prologue.insn.decode import CONTROL
from prologue.sites.code import Code, Fragment, UnrecognisedError
from prologue.sites.executor import Executor, UnmodelledError
from prologue.sites.knowledge import SP, STACK, Knowledge, on_stack
from prologue.sites.rewritten import Replacement
from prologue.sites.values import ALL, LOW, Entry, Limits, Some, Value, conditional, is_zero, of_numbers

_DEEPEST: Final = 8  # calls; four or five in the kernels that were seen
_STEPS: Final = 20_000  # instructions in one function, repeated ones included
_FRAME: Final = 1 << 32  # between one function's stack and the next one's
_OBJECT: Final = 16  # bytes of what is passed by address
_CHANGED_BY_CALLS: Final = (*range(19), 30)  # AAPCS64, "General-purpose registers"
_ARGUMENTS: Final = 8
_BL: Final = 0b100101

Cells = dict[int, tuple[int, Value]]


class Summary(NamedTuple):
    """What is known where a function returns.

    ``literal``: written on every path whose result may be 0. ``kept``: registers that hold what they held before, for
    compilers know that of a function in the same file (GCC's -fipa-ra) and do without AAPCS64.
    """

    result: Value
    cells: Cells
    literal: bool
    returns: bool
    kept: frozenset[int] = frozenset()


class Follower(ABC):
    """Follows functions, and judges what they do."""

    def __init__(self, code: Code, limits: Limits) -> None:
        self.code = code
        self.limits = limits
        self._depth = 0

    def run(self, entry: int, arguments: list[Value], cells: Cells) -> Summary:
        """Follow the function at ``entry``; ``cells`` is the memory outside of stacks that is known.

        Raises:
            UnrecognisedError: it cannot be followed, or a judgement refused something.

        """
        if self._depth >= _DEEPEST:
            raise UnrecognisedError("calls itself, or goes too deep", entry)
        self._depth += 1
        try:
            return _Walk(self, entry, self._depth).outcome(arguments, cells)
        finally:
            self._depth -= 1

    @abstractmethod
    def called(self, target: int, pc: int, state: Knowledge) -> Summary | None:
        """Judge a call at ``pc``: what comes of it, or None for a function that is not followed.

        Raises:
            UnrecognisedError: there must be no such call.

        """

    @abstractmethod
    def stored(self, state: Knowledge, pc: int, address: Value, size: int, value: Value) -> None:
        """Judge a store outside of the stack.

        Raises:
            UnrecognisedError: there must be no such store.

        """


class _Walk:
    """One function with one set of arguments."""

    def __init__(self, follower: Follower, entry: int, depth: int) -> None:
        self._follower = follower
        self._code = follower.code
        self._limits = follower.limits
        self._name = self._code.known(entry)
        self._entry = entry
        self._depth = depth
        self._machine = Executor(follower.limits, self._code.literal, follower.stored)
        self._states: dict[tuple[int, bool], Knowledge] = {}
        self._todo: list[tuple[int, bool]] = []
        self._returned: Knowledge | None = None
        self._literal = True

    def outcome(self, arguments: list[Value], cells: Cells) -> Summary:
        registers: list[Value] = [Entry(register) for register in range(32)]
        registers[: len(arguments)] = arguments
        registers[SP] = STACK + self._depth * _FRAME
        self._go(self._entry, Knowledge(registers, cells.copy()), 0)
        steps = 0
        while self._todo:
            key = heapq.heappop(self._todo)
            steps += self._block(key[0], self._states[key].copy())
            if steps > _STEPS:
                raise UnrecognisedError(f"{self._name} takes too long to follow", self._entry)
        final = self._returned
        if final is None:
            return Summary(None, cells, literal=False, returns=False)
        known = zip(final.regs, registers, strict=True)
        kept = frozenset(k for k, (now, then) in enumerate(known) if now is not None and now == then)
        return Summary(final.regs[0], final.kept(stack=False), literal=self._literal, returns=True, kept=kept)

    def _go(self, target: int, state: Knowledge, source: int) -> None:
        """Control gets to ``target`` in a state: look again at what follows if that is news."""
        key = target, state.literal
        known = self._states.get(key)
        if known is None:
            self._states[key] = state.copy()
        elif not known.join(state, self._limits, again=target <= source):
            return
        if key not in self._todo:
            heapq.heappush(self._todo, key)

    def _block(self, pc: int, state: Knowledge) -> int:
        """Execute until paths may meet or part; number of instructions."""
        fragment = self._inside(pc)
        if fragment is None:
            raise UnrecognisedError(f"control runs out of {self._name}", pc)
        words, leaders, others = fragment.words, fragment.leaders, self._code.rewritten.at
        begin = at = (pc - fragment.start) // a64.INSN_SIZE
        while True:
            word = words[at]
            if pc in others:
                for other in others[pc]:
                    self._alternative(other, pc, state.copy())
            at, here, pc = at + 1, pc, pc + a64.INSN_SIZE
            if not is_branch(word):
                self._execute(word, here, state)
            elif not self._branch(word, here, state):
                return at - begin
            if pc in leaders:
                self._go(pc, state, here)
                return at - begin
            if at == len(words):
                if word >> 26 == _BL:
                    return at - begin  # of a function that does not return, panic() or the like
                raise UnrecognisedError(f"control runs out of {self._name}", here)

    def _execute(self, word: int, pc: int, state: Knowledge) -> None:
        try:
            self._machine.execute(state, word, pc)
        except UnmodelledError:
            raise UnrecognisedError(f"{word:08x} is not an instruction that can be followed", pc) from None

    def _alternative(self, other: Replacement, pc: int, state: Knowledge) -> None:
        """Execute what may stand there instead: straight code, perhaps with a branch at its end."""
        if other.words is None:
            raise UnrecognisedError("a callback writes this code at boot", pc)
        for k, word in enumerate(other.words):
            at = other.start + a64.INSN_SIZE * k
            if not is_branch(word):
                self._execute(word, at, state)
            elif a64.classify(word) == "B":
                self._jump(a64.branch_target(word, at) or 0, state, pc)
                return
            else:
                raise UnrecognisedError("an alternative with a branch that cannot be followed", pc)
        self._jump(other.resume, state, pc)

    def _inside(self, vaddr: int) -> Fragment | None:
        """The part of this function that contains an address; None if it is another function's."""
        found = self._code.fragment(vaddr)
        return found if found is not None and found.name == self._name else None

    def _jump(self, target: int, state: Knowledge, pc: int) -> None:
        """A branch: within the function, or a tail call."""
        if self._inside(target) is not None:
            self._go(target, state, pc)
        elif self._call(target, state, pc):
            self._return(state)

    def _branch(self, word: int, pc: int, state: Knowledge) -> bool:
        """A branch, call, return or trap; whether the next instruction follows."""
        if word >> 26 & 0x1F == 0b00101:  # B, BL
            target = pc + a64.signed_field(word, 0, 26) * a64.INSN_SIZE & ALL
            if word >> 26 == _BL:
                return self._call(target, state, pc)
            self._jump(target, state, pc)
            return False
        if word >> 24 == 0x54 or word >> 26 & 0x1F == 0b01101:
            return self._conditional(word, pc, state)
        if word >> 25 == 0x6B:
            return self._indirect(word, pc, state)
        if a64.classify(word) == "BRK":
            return self._code.is_warning(pc)
        raise UnrecognisedError(f"{word:08x} is not an instruction that can be followed", pc)

    def _conditional(self, word: int, pc: int, state: Knowledge) -> bool:
        """B.cond; CBZ and CBNZ; TBZ and TBNZ, which have bit 25 set. Bit 24 says whether not 0 branches."""
        nonzero, bit = bool(word >> 24 & 1), None
        if word >> 24 == 0x54:
            taken = conditional(self._limits, word & 0xF, state.flags)
        else:
            if word >> 25 & 1:
                bit = word >> 31 << 5 | word >> 19 & 0x1F
            zero = is_zero(state.read(word & 31, 64 if word >> 31 else 32), bit)
            taken = None if zero is None else zero != nonzero
        distance = a64.signed_field(word, 5, 14 if bit is not None else 19) * a64.INSN_SIZE
        if taken is not False:
            there = state.copy()
            self._refine(there, word, taken=True)
            self._jump(pc + distance & ALL, there, pc)
        if taken is True:
            return False
        self._refine(state, word, taken=False)
        return True

    @staticmethod
    def _refine(state: Knowledge, word: int, *, taken: bool) -> None:
        """What a branch says about its register."""
        register, narrow, compares = word & 31, not word >> 31, not word >> 25 & 1
        if word >> 24 == 0x54 or register == 31:
            return
        value = state.regs[register]
        if taken == bool(word >> 24 & 1):
            if compares and isinstance(value, frozenset):
                state.regs[register] = of_numbers(frozenset(n for n in value if n & (LOW if narrow else ALL)))
            elif value is None and narrow:
                state.regs[register] = Some.NONZERO
        elif compares and not narrow and value is None:
            state.regs[register] = 0

    def _indirect(self, word: int, pc: int, state: Knowledge) -> bool:
        """BR, BLR, RET, and those with pointer authentication (Arm ARM, "Unconditional branch (register)")."""
        opc = word >> 21 & 7
        target = state.regs[word >> 5 & 31] if word >> 5 & 31 != 31 else None
        if opc == 2:  # RET, RETAA, RETAB
            self._return(state)
            return False
        if opc == 1 and isinstance(target, int):
            return self._call(target, state, pc)
        if opc == 0 and isinstance(target, int):
            self._jump(target, state, pc)
            return False
        raise UnrecognisedError("an indirect branch to where is not known", pc)

    def _call(self, target: int, state: Knowledge, pc: int) -> bool:
        """A call of another function; whether it returns."""
        outcome = self._follower.called(self._code.target(target), pc, state)
        if outcome is not None and not outcome.returns:
            return False
        for value in state.regs[:_ARGUMENTS]:
            if isinstance(value, int) and on_stack(value):
                state.forget(value, _OBJECT)
        if outcome is not None:
            state.cells = state.kept(stack=True) | outcome.cells
            state.literal |= outcome.literal
        for register in _CHANGED_BY_CALLS:
            if outcome is None or register not in outcome.kept:
                state.regs[register] = None
        state.flags = None
        state.regs[0] = outcome.result if outcome is not None else None
        return True

    def _return(self, state: Knowledge) -> None:
        if not state.literal and is_zero(state.read(0, 32)) is not False:
            self._literal = False
        if self._returned is None:
            self._returned = state.copy()
        else:
            self._returned.join(state, self._limits, again=False)


def is_branch(word: int) -> bool:
    """Branches, calls, returns and exceptions, which change where control goes; not hints, barriers, MSR and MRS."""
    return word & CONTROL[0] == CONTROL[1] and word >> 22 != 0b1101010100
