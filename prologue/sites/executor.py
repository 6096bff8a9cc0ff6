"""Integer A64 instructions carried out on values that are partly known.

Registers, flags and memory cells hold ``Value``. An instruction that is not modelled exactly leaves what it writes
unknown; one of which it is not known what it writes is refused. Groups and fields are those of the Arm ARM (DDI 0487),
"A64 instruction set encoding" (op0 at bits 28:25); the tests compare with what keystone assembles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prologue.insn.a64 import SCS_PUSH, signed, signed_field
from prologue.insn.bitmask import bitfield, extended, logical_immediate, shifted
from prologue.sites.knowledge import Knowledge, low_half, on_stack
from prologue.sites.values import (
    ALL,
    LOW,
    FlagSource,
    Limits,
    McountRecord,
    Value,
    add,
    apply,
    combine,
    conditional,
    numbers_of,
)

_SIGNED: Final = {1: 0x80, 2: 0x8000, 4: 0x80000000}
_BLOCKS: Final = (0b1001, 0b1010, 0b1011, 0b1101)  # o3:opc of LD64B and ST64B, which name eight registers


class UnmodelledError(Exception):
    """An instruction of which it is not known what it writes."""


class Executor:
    """Executes instructions that are no branches. ``stored`` is told of stores outside of the stack."""

    def __init__(
        self,
        limits: Limits,
        literal: Callable[[int], Value],
        stored: Callable[[Knowledge, int, Value, int, Value], None],
    ) -> None:
        self.limits = limits
        self._literal = literal  # an address in a literal pool to what its 8 bytes will hold
        self._stored = stored  # state, address of the instruction, address of the data, bytes, value

    def execute(self, state: Knowledge, word: int, pc: int) -> None:
        """One instruction.

        Raises:
            UnmodelledError: a vector, an undefined or an unknown instruction.

        """
        group = word >> 25 & 0xF
        if group & 0b1110 == 0b1000:
            self._immediate(state, word, pc)
        elif group & 0b0111 == 0b0101:
            self._register(state, word)
        elif group & 0b0101 == 0b0100 and not word >> 26 & 1:
            self._memory(state, word, pc)
        elif group & 0b1110 == 0b1010:
            self._system(state, word)
        else:
            raise UnmodelledError

    # data processing, immediate

    def _immediate(self, state: Knowledge, word: int, pc: int) -> None:
        kind, rd, rn = word >> 23 & 7, word & 31, word >> 5 & 31
        width = 64 if word >> 31 else 32
        if kind < 2:  # ADR, ADRP
            distance = signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
            page = bool(word >> 31)
            state.write(rd, ((pc & ~0xFFF) + (distance << 12) if page else pc + distance) & ALL)
        elif kind == 2:  # ADD, ADDS, SUB, SUBS: 31 is SP, but not for the result of those that set flags
            number = (word >> 10 & 0xFFF) << (12 if word >> 22 & 1 else 0)
            source = state.regs[rn] if width == 64 else low_half(state.regs[rn])
            self._sum(state, word, source, number, sp=True)
        elif kind == 3:  # ADDG, SUBG
            state.regs[rd] = None
        elif kind == 4:
            number_or_none = logical_immediate(word)
            if number_or_none is None:
                raise UnmodelledError
            self._logical(state, word, number_or_none & (ALL if width == 64 else LOW), sp=True)
        elif kind == 5:  # MOVN, MOVZ, MOVK
            at, number, opc = 16 * (word >> 21 & 3), word >> 5 & 0xFFFF, word >> 29 & 3
            mask = ALL if width == 64 else LOW
            if opc == 3:
                state.write(rd, apply(lambda n: (n & ~(0xFFFF << at) | number << at) & mask, state.read(rd, width)))
            else:
                state.write(rd, (number << at ^ (ALL if opc == 0 else 0)) & mask)
        elif kind == 6:
            source, old = state.read(rn, width), 0 if word >> 29 & 3 != 1 else state.read(rd, width)
            state.write(rd, combine(lambda a, b: bitfield(word, a, b), source, old))
        else:  # EXTR
            down = word >> 10 & 0x3F
            high, low = state.read(rn, width), state.read(word >> 16 & 31, width)
            mask = (1 << width) - 1
            state.write(rd, combine(lambda a, b: (a << width | b) >> down & mask, high, low))

    def _sum(self, state: Knowledge, word: int, one: Value, two: Value, *, sp: bool) -> None:
        """ADD, SUB and those that set flags; bit 30 is SUB, bit 29 sets flags."""
        minus, rd = bool(word >> 30 & 1), word & 31
        if word >> 31:
            result = add(self.limits, one, two, minus=minus)
        else:
            result = apply(lambda n: n & LOW, combine(lambda a, b: a - b if minus else a + b, one, two))
            result = one if two == 0 and result is None else result
        if word >> 29 & 1:
            state.flags = FlagSource("sub" if minus else "add", one, two, 64 if word >> 31 else 32)
            state.write(rd, result)
        elif sp:
            state.regs[rd] = result
        else:
            state.write(rd, result)

    def _logical(self, state: Knowledge, word: int, two: Value, *, sp: bool) -> None:
        """AND, ORR, EOR, ANDS for opc (30:29) 0 to 3; ``two`` may be inverted already."""
        width, rd, opc = 64 if word >> 31 else 32, word & 31, word >> 29 & 3
        one = state.read(word >> 5 & 31, width)
        result: Value
        if opc == 1 and (one == 0 or two == 0):
            result = two if one == 0 else one  # MOV
        elif opc in (0, 3) and (one == 0 or two == 0):
            result = 0
        elif opc == 1:
            result = combine(lambda a, b: a | b, one, two)
        elif opc == 2:
            result = combine(lambda a, b: a ^ b, one, two)
        else:
            result = combine(lambda a, b: a & b, one, two)
        if opc == 3:
            state.flags = FlagSource("and", one, two, width)
            state.write(rd, result)
        elif sp:
            state.regs[rd] = result
        else:
            state.write(rd, result)

    # data processing, register

    def _register(self, state: Knowledge, word: int) -> None:
        width, rd = 64 if word >> 31 else 32, word & 31
        one, two = state.read(word >> 5 & 31, width), state.read(word >> 16 & 31, width)
        if not word >> 28 & 1:
            kind, amount = word >> 22 & 3, word >> 10 & 0x3F
            if not word >> 24 & 1:
                two = two if not amount else apply(lambda n: shifted(n, kind, amount, width), two)
                if word >> 21 & 1:
                    two = apply(lambda n: n ^ (1 << width) - 1, two)
                self._logical(state, word, two, sp=False)
            elif not word >> 21 & 1:
                two = two if not amount else apply(lambda n: shifted(n, kind, amount, width), two)
                self._sum(state, word, one, two, sp=False)
            else:
                rn = word >> 5 & 31
                one = state.regs[rn] if width == 64 else low_half(state.regs[rn])
                two = _extend(state.read(word >> 16 & 31), word >> 13 & 7, word >> 10 & 7)
                self._sum(state, word, one, low_half(two) if width == 32 else two, sp=True)
            return
        group = word >> 21 & 0xF
        if group == 0b0100:
            state.write(rd, self._selected(state, word, one, two, width))
        elif group == 0b0010:
            self._conditional_compare(state, word, one, two, width)
        elif group == 0b0000 and word >> 10 & 0x3F == 0:  # ADC, SBC and those that set flags
            state.write(rd, None)
            state.flags = None if word >> 29 & 1 else state.flags
        elif group == 0b0000:  # RMIF, SETF
            state.flags = None
        elif group == 0b0110 and not word >> 30 & 1 and word >> 12 & 0xF == 2:  # LSLV, LSRV, ASRV, RORV
            kind = word >> 10 & 3
            state.write(rd, combine(lambda a, b: shifted(a, kind, b, width), one, two))
        else:  # multiplications, divisions, CLZ, REV, CRC32, PAC and the like write Rd only
            state.write(rd, None)
            state.flags = None if group == 0b0110 and word >> 29 & 1 else state.flags  # SUBPS

    def _selected(self, state: Knowledge, word: int, one: Value, two: Value, width: int) -> Value:
        """CSEL, CSINC, CSINV, CSNEG: op at bit 30, o2 at bit 10."""
        inverts, increments, mask = word >> 30 & 1, word >> 10 & 1, (1 << width) - 1
        if inverts:
            two = apply(lambda n: (-n if increments else ~n) & mask, two)
        elif increments:
            two = apply(lambda n: n + 1 & mask, two)
        holds = conditional(self.limits, word >> 12 & 0xF, state.flags)
        if holds is None:
            return self.limits.join(one, two, again=False)
        return one if holds else two

    def _conditional_compare(self, state: Knowledge, word: int, one: Value, two: Value, width: int) -> None:
        """CCMP (bit 30) and CCMN, with a register or (bit 11) a number of 5 bits."""
        holds = conditional(self.limits, word >> 12 & 0xF, state.flags)
        if holds is None:
            state.flags = None
        elif holds:
            two = word >> 16 & 31 if word >> 11 & 1 else two
            state.flags = FlagSource("sub" if word >> 30 & 1 else "add", one, two, width)
        else:
            state.flags = word & 0xF

    # hints, barriers, system registers

    def _system(self, state: Knowledge, word: int) -> None:
        """Branches and calls are not executed here."""
        if word >> 22 != 0b1101010100:
            raise UnmodelledError
        if word >> 21 & 1:  # MRS, SYSL
            state.write(word & 31, None)
        elif word & 0xFFFFF01F == 0xD503201F:
            if word >> 5 & 0x7F in (7, *range(8, 16, 2), *range(24, 32)):  # XPACLRI; PAC and AUT of X17 or X30
                state.regs[17] = state.regs[30] = None
        elif word & 0xFFF8F01F == 0xD500401F:  # MSR (immediate), CFINV
            state.flags = None

    # loads and stores

    def _memory(self, state: Knowledge, word: int, pc: int) -> None:
        """Forms by bits 29:28 (Arm ARM, "Loads and Stores")."""
        form = word >> 28 & 3
        if form == 0b11 and (word >> 24 & 1 or not word >> 21 & 1 or word >> 10 & 3 == 2):
            self._single(state, word, pc)
        elif form == 0b10:
            self._pair(state, word, pc)
        elif form == 0b01 and not word >> 24 & 1:
            self._from_literal(state, word, pc)
        elif form == 0b01 and not word >> 21 & 1 and word >> 10 & 3 == 0:  # LDAPUR, STLUR
            self._plain(state, word, pc, self._offset(state, word, signed_field(word, 12, 9)))
        elif form == 0b00 and word & 0x00A08000 == 0x00808000 and not word >> 21 & 1:  # LDAR, STLR, LDLAR, STLLR
            self._plain(state, word, pc, state.regs[word >> 5 & 31], load=bool(word >> 22 & 1))
        elif form == 0b00 or (form == 0b11 and word >> 10 & 3 == 0 and word >> 12 & 0xF not in _BLOCKS):
            # Exclusives, CAS, and atomics: LDADD, SWP, LDAPR.
            address = state.regs[word >> 5 & 31]
            self._store(state, pc, address, 16, None)
            state.write(word & 31, None)
            state.write(word >> 16 & 31, None)
            state.write(word >> 10 & 31, None)
            if form == 0b00 and word >> 23 & 1:  # CASP's second registers
                state.write((word & 31) + 1 & 31, None)
                state.write((word >> 16 & 31) + 1 & 31, None)
        else:  # tags and copies
            raise UnmodelledError

    def _offset(self, state: Knowledge, word: int, distance: Value) -> Value:
        """Address from Rn and a distance."""
        return add(
            self.limits, state.regs[word >> 5 & 31], distance if not isinstance(distance, int) else distance & ALL
        )

    def _single(self, state: Knowledge, word: int, pc: int) -> None:
        """LDR, STR and their kind: a scaled or an unscaled immediate, pre- or post-indexed, or a register."""
        rn, size = word >> 5 & 31, word >> 30
        if word >> 24 & 1:
            address = self._offset(state, word, (word >> 10 & 0xFFF) << size)
        elif word >> 21 & 1:
            index = _extend(state.read(word >> 16 & 31), word >> 13 & 7, size if word >> 12 & 1 else 0)
            address = self._offset(state, word, index)
        else:
            mode = word >> 10 & 3
            moved = self._offset(state, word, signed_field(word, 12, 9))
            address = state.regs[rn] if mode == 1 else moved
            if mode & 1:  # the base changes before a load that may write over it
                self._plain(state, word, pc, address, base=rn, after=moved)
                return
        self._plain(state, word, pc, address)

    def _plain(  # noqa: PLR0913 - the operands of one load or store
        self,
        state: Knowledge,
        word: int,
        pc: int,
        address: Value,
        *,
        load: bool | None = None,
        base: int | None = None,
        after: Value = None,
    ) -> None:
        """One register of 1 << bits 31:30 bytes; opc (23:22) 0 stores, 2 and 3 load with the sign."""
        size, opc, rt = 1 << (word >> 30), word >> 22 & 3, word & 31
        is_store = opc == 0 if load is None else not load
        if is_store:
            if word != SCS_PUSH:  # the shadow call stack is not the stack, and nothing else
                self._store(state, pc, address, size, state.read(rt))
            if base is not None:
                state.regs[base] = after
            return
        if base is not None:
            state.regs[base] = after
        if size == 8 and opc == 2 and load is None:  # PRFM
            return
        value = self._load(state, address, size)
        if opc >= 2 and load is None and size < 8:
            bit, low = _SIGNED[size], ALL if opc == 2 else LOW
            value = apply(lambda n: (n ^ bit) - bit & low, value)
        state.write(rt, value)

    def _pair(self, state: Knowledge, word: int, pc: int) -> None:
        """LDP, STP, LDPSW: mode at 24:23, L at 22."""
        size, rn = 8 if word >> 31 else 4, word >> 5 & 31
        mode, opc = word >> 23 & 3, word >> 30
        distance = signed_field(word, 15, 7) * size
        if opc == 1:
            if not word >> 22 & 1:
                raise UnmodelledError  # STGP
            distance = signed_field(word, 15, 7) * 4
            size = 4
        moved = self._offset(state, word, distance)
        address = state.regs[rn] if mode == 1 else moved
        second = add(self.limits, address, size)
        registers = word & 31, word >> 10 & 31
        if not word >> 22 & 1:
            for register, at in zip(registers, (address, second), strict=True):
                self._store(state, pc, at, size, state.read(register))
            if mode & 1:
                state.regs[rn] = moved
            return
        values = [self._load(state, at, size) for at in (address, second)]
        if mode & 1:
            state.regs[rn] = moved
        for register, value in zip(registers, values, strict=True):
            state.write(register, None if opc == 1 else value)

    def _from_literal(self, state: Knowledge, word: int, pc: int) -> None:
        """LDR Xt, label; LDR Wt and LDRSW are not followed."""
        opc = word >> 30
        if opc < 3:
            place = pc + signed_field(word, 5, 19) * 4
            state.write(word & 31, self._literal(place & ALL) if opc == 1 else None)

    def _load(self, state: Knowledge, address: Value, size: int) -> Value:
        if size == 8 and self.limits.in_table(address):
            return McountRecord()
        return state.load(address, size)

    def _store(self, state: Knowledge, pc: int, address: Value, size: int, value: Value) -> None:
        if isinstance(address, int):
            state.store(address, size, value)
        else:
            for place in numbers_of(address) or ():
                state.forget(place, size)
        if not on_stack(address):
            self._stored(state, pc, address, size, value)


def _extend(value: Value, kind: int, shift: int) -> Value:
    """An extended register; UXTX and SXTX without a shift change nothing."""
    if kind & 3 == 3 and not shift:
        return value
    return apply(lambda n: extended(n, kind, shift), value)
