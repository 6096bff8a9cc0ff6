"""The storage of a variable at an instruction: DWARF's location lists and expressions, as an event can fetch them.

DWARF 5, sections 2.5, 2.6 and 6.4; DWARF for the Arm 64-bit Architecture, "DWARF register names": register n below 31
is Xn, 31 is SP.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, Final

from prologue.dwarf.dwarf_entries import base_of
from prologue.insn.effect import loads, raises_sp
from prologue.insn.table import FlowKind, row_of

_REG0, _BREG0, _LIT0 = 0x50, 0x70, 0x30
FRAME_POINTER: Final = 29
_LAST: Final = 31
# Of DW_OP_: constants with their bytes, and whether they are signed; LEB128 has 0 bytes.
_CONSTANTS: Final = {0x08: (1, False), 0x09: (1, True), 0x0A: (2, False), 0x0B: (2, True), 0x0C: (4, False),
                     0x0D: (4, True), 0x0E: (8, False), 0x0F: (8, True), 0x10: (0, False), 0x11: (0, True)}  # fmt: skip
_ADDR, _ADDRX, _DEREF, _PLUS_UCONST, _FBREG = 0x03, 0xA1, 0x06, 0x23, 0x91
_PIECE, _BIT_PIECE = 0x93, 0x9D
_CALL_FRAME_CFA, _IMPLICIT_VALUE, _STACK_VALUE = 0x9C, 0x9E, 0x9F
_ENTRY_VALUE: Final = (0xA3, 0xF3)

_FDE: Final = struct.Struct("<IIQ")  # of 32 bits: length, offset of its CIE, address of the function
_CIE: Final = 0xFFFFFFFF  # in place of that offset, in a CIE itself

OPTIMISED_OUT: Final = "the compiler keeps it nowhere at this instruction (optimised out)"
DECLARED: Final = "it is only declared here"
ENTRY_ONLY: Final = "only its value at the function's entry is known here: probe the entry"
NO_FRAME: Final = "it is on the stack, and the function has made no room for it yet"
NOT_SET_YET: Final = "it is said to be where a register points that the function may not have set yet"
LEFT: Final = "it is on the stack, and the function has left its room already"
ADDRESS_ONLY: Final = "it is an address that the compiler knows, which events cannot show: name what is there"
OVERWRITTEN: Final = "an instruction before this one of the same statement wrote the register that had it"
COMPUTED: Final = "the compiler computes it from other values where it is used"


@dataclass(frozen=True, slots=True)
class InRegister:
    """A value in a register, by its name in events."""

    register: str


@dataclass(frozen=True, slots=True)
class InMemory:
    """A value in memory: at ``offset`` from where ``base``, a fetch argument, points to.

    ``is_symbol`` if ``base`` is ``@SYMBOL``, and it is at ``offset`` from that symbol. ``user`` if it is memory of a
    process.
    """

    base: str
    offset: int = 0
    user: bool = False
    is_symbol: bool = False


@dataclass(frozen=True, slots=True)
class Sum:
    """A register, or ``@SYMBOL``, plus a number, which is stored nowhere and serves as an address only."""

    register: str
    offset: int


@dataclass(frozen=True, slots=True)
class Constant:
    """A number that the compiler knows."""

    value: int


@dataclass(frozen=True, slots=True)
class Pieces:
    """A value in parts: the size of each in bits, and its storage."""

    parts: tuple[tuple[int, Storage], ...]


@dataclass(frozen=True, slots=True)
class Address:
    """A static variable, at a link-time address; ``is_value`` if the variable is that address itself."""

    vaddr: int
    is_value: bool = False


@dataclass(frozen=True, slots=True)
class Missing:
    """A variable that cannot be had, and the reason."""

    reason: str


Storage = InRegister | InMemory | Sum | Constant | Pieces | Address | Missing


def register_of_address(entry: Any) -> int | None:
    """Return the register at whose address a variable is said to be in the whole function; None if it is not.

    GCC says so of a parameter that is passed by reference, also where it has not moved the address there yet.
    """
    location = entry.attributes.get("DW_AT_location")
    value = location.value if location is not None else None
    if isinstance(value, list) and value and _BREG0 <= value[0] < _BREG0 + _LAST:
        return int(value[0] - _BREG0)
    return None


def register_name(number: int) -> str:
    """Name a register as events do (arch/arm64/kernel/ptrace.c, ``regoffset_table``)."""
    return "%sp" if number == _LAST else f"%x{number}"


def registers_of(storage: Storage) -> set[int]:
    """Return the registers that a storage depends on, by number, other than SP."""
    match storage:
        case InRegister(text) | Sum(text) | InMemory(text):
            return {int(number) for number in re.findall(r"%x(\d+)", text)}
        case Pieces(parts):
            return set().union(*(registers_of(part) for _, part in parts))
        case _:
            return set()


def location_start(dwarf: Any, entry: Any, vaddr: int) -> int:
    """Return the first address of the run of instructions with the location that a variable has at ``vaddr``.

    It is 0 if the location holds wherever the variable is in scope.
    """
    location = entry.attributes.get("DW_AT_location")
    return _location_at(dwarf, entry, location, vaddr)[0] if location is not None else 0


def storage_at(dwarf: Any, entry: Any, vaddr: int, frame: StackFrame) -> Storage:
    """Return the storage of a variable when the instruction at ``vaddr`` is about to run."""
    constant = entry.attributes.get("DW_AT_const_value")
    location = entry.attributes.get("DW_AT_location")
    if location is None:
        if constant is not None and isinstance(constant.value, int):
            return Constant(constant.value)
        return Missing(DECLARED if "DW_AT_declaration" in entry.attributes else OPTIMISED_OUT)
    _, expression = _location_at(dwarf, entry, location, vaddr)
    if not expression:
        return Missing(OPTIMISED_OUT)
    storage = _evaluate(dwarf, entry, expression, vaddr, frame)
    # GCC (12) says of a parameter in two registers that it stays there, also if it overwrites them.
    is_fixed = location.form == "DW_FORM_exprloc" and entry.tag == "DW_TAG_formal_parameter"
    return Missing(ENTRY_ONLY) if is_fixed and isinstance(storage, Pieces) and not frame.begins(vaddr) else storage


def _location_at(dwarf: Any, entry: Any, location: Any, vaddr: int) -> tuple[int, list[int]]:
    """Return the expression that holds at an instruction, and where it begins to; it is empty if none does."""
    from elftools.dwarf.locationlists import BaseAddressEntry, LocationEntry, LocationExpr, LocationParser

    parsed = LocationParser(dwarf.location_lists()).parse_from_attribute(location, entry.cu["version"], entry)
    if isinstance(parsed, LocationExpr):
        return 0, list(parsed.loc_expr)
    base = base_of(entry)
    for item in parsed:
        if isinstance(item, BaseAddressEntry):
            base = item.base_address
        elif isinstance(item, LocationEntry):  # not a view pair, which divides what is at one address
            start = 0 if item.is_absolute else base
            if start + item.begin_offset <= vaddr < start + item.end_offset:
                return start + item.begin_offset, list(item.loc_expr)
    return 0, []


def _evaluate(dwarf: Any, entry: Any, expression: list[int], vaddr: int, frame: StackFrame) -> Storage:
    """Return the storage that an expression describes, if an event can fetch it."""
    operations = [
        op._replace(op=_ADDR, args=[dwarf.get_addr(entry.cu, op.args[0])]) if op.op == _ADDRX else op
        for op in _parser(entry.cu.structs).parse_expr(expression)
    ]
    parts, begin = list[tuple[int, Storage]](), 0
    for index, op in enumerate(operations):
        if op.op in (_PIECE, _BIT_PIECE):
            part = operations[begin:index]
            storage = _value(part, vaddr, frame) if part else Missing(OPTIMISED_OUT)
            size, *offset = op.args if op.op == _BIT_PIECE else (8 * op.args[0],)
            parts.append((size, Missing(COMPUTED) if any(offset) else storage))
            begin = index + 1
    return Pieces(tuple(parts)) if parts else _value(operations, vaddr, frame)


@cache
def _parser(structs: Any) -> Any:
    """Return the parser of expressions for units of one form: pyelftools builds a table of all operations for it."""
    from elftools.dwarf.dwarf_expr import DWARFExprParser

    return DWARFExprParser(structs)


def _value(operations: list[Any], vaddr: int, frame: StackFrame) -> Storage:
    """Return the storage of a piece: its expression gives a register, a constant, a value, or else its address."""
    state: Storage | None = None
    for op in operations:
        code, args = op.op, op.args
        if _REG0 <= code <= _REG0 + _LAST:
            return InRegister(register_name(code - _REG0))
        if _BREG0 <= code <= _BREG0 + _LAST and state is None:
            state = frame.relative(vaddr, code - _BREG0, args[0])
        elif code == _FBREG and state is None:
            state = frame.base(vaddr, args[0])
        elif code == _CALL_FRAME_CFA and state is None:
            state = frame.cfa(vaddr, 0)
        elif code == _ADDR and state is None:
            state = Address(args[0])
        elif (code in _CONSTANTS or _LIT0 <= code < _LIT0 + 32) and state is None:
            state = Constant(code - _LIT0 if code >= _LIT0 else args[0])
        elif code == _PLUS_UCONST and isinstance(state, Sum):
            state = Sum(state.register, state.offset + args[0])
        elif code == _DEREF and isinstance(state, Sum):
            return _dereferenced(operations, state)
        elif code in _ENTRY_VALUE:
            return Missing(ENTRY_ONLY)
        elif code == _STACK_VALUE:
            if isinstance(state, Sum) and state.offset == 0:
                return InRegister(state.register)
            if isinstance(state, Address):
                return Address(state.vaddr, is_value=True)
            return Missing(COMPUTED) if state is None else state
        elif code == _IMPLICIT_VALUE:
            return Constant(int.from_bytes(bytes(args[0]), "little")) if len(args[0]) <= 8 else Missing(COMPUTED)
        else:
            return Missing(COMPUTED)
    if isinstance(state, Sum):
        below = state.register == "%sp" and state.offset < 0
        return Missing(NO_FRAME) if below else InMemory(state.register, state.offset)
    return state if isinstance(state, Address | Missing) else Missing(COMPUTED)


def _dereferenced(operations: list[Any], state: Sum) -> Storage:
    """Return the storage by a pointer in memory; with DW_OP_stack_value that memory itself is the storage."""
    rest = operations[[op.op for op in operations].index(_DEREF) + 1 :]
    if not rest:
        return InMemory(f"{state.offset:+d}({state.register})", 0)
    return InMemory(state.register, state.offset) if [op.op for op in rest] == [_STACK_VALUE] else Missing(COMPUTED)


class StackFrame:
    """The base of stack variables: for GCC the caller's stack (CFA), by ``.debug_frame``; for Clang X29 or SP.

    Args:
        dwarf: the debug information.
        start: the first address of the function, or of its part that has the instruction.
        base: its DW_AT_frame_base, empty if it has none.
        words: the instruction that is meant, and those after it.
        is_entry: ``start`` is the function's entry.

    """

    def __init__(
        self, dwarf: Any, start: int, base: Sequence[int] = (), words: Sequence[int] = (), *, is_entry: bool = True
    ) -> None:
        self._dwarf = dwarf
        self._words = words
        self.start = start
        self._register = base[0] - _REG0 if len(base) == 1 and base[0] != _CALL_FRAME_CFA else None
        self._is_entry = is_entry
        self._largest = -1  # distance from SP to the CFA in the whole frame; -1 if X29 shows that it is there
        self._made: dict[int, int] = {}  # distance to the CFA in the whole frame, from the register that shows it

    def begins(self, vaddr: int) -> bool:
        """Return whether an instruction is the first of the function, or before it, as the slots may be."""
        return self._is_entry and vaddr <= self.start

    def base(self, vaddr: int, offset: int) -> Storage:
        """Return the frame base plus an offset at an instruction."""
        return self.cfa(vaddr, offset) if self._register is None else self.relative(vaddr, self._register, offset)

    def relative(self, vaddr: int, register: int, offset: int) -> Storage:
        """Return a register plus an offset.

        For all instructions of a function, Clang gives the X29 and SP that it has after setting them up.
        """
        if self._register is not None and register in (FRAME_POINTER, _LAST):
            rule = self._rule(vaddr)
            if rule is None or (rule.reg != FRAME_POINTER and (register != _LAST or rule.offset != self._largest)):
                above = offset - self._made.get(register, offset + 1)
                # The caller's memory, which has the ninth argument and later ones, needs no frame.
                return self.cfa(vaddr, above) if above >= 0 else Missing(NO_FRAME)
            if (rule.reg == FRAME_POINTER or rule.offset) and self._is_left(register):
                return Missing(LEFT)
        return Sum(register_name(register), offset)

    def _is_left(self, register: int) -> bool:
        """Return whether the function returns without restoring a register that shows its frame: it did so before.

        Clang's ``.debug_frame`` (14) does not say that a frame ends.
        """
        for word in self._words:
            if loads(word, register) if register == FRAME_POINTER else raises_sp(word):
                return False
            flow = row_of(word).flow
            if flow is not FlowKind.PLAIN:
                return flow is FlowKind.RET
        return False

    def cfa(self, vaddr: int, offset: int) -> Storage:
        """Return the CFA plus an offset at an instruction."""
        if vaddr == self.start and self._is_entry:
            return Sum("%sp", offset)
        rule = self._rule(vaddr)
        if rule is None or rule.reg is None:
            return Missing("it is on the stack, and .debug_frame does not say where that begins here")
        return Sum(register_name(rule.reg), rule.offset + offset)

    def _rule(self, vaddr: int) -> Any:
        """Return the rule by which the CFA is found at an instruction; None if there is none."""
        rows = [row for row in self._table if row["pc"] <= vaddr]
        return rows[-1]["cfa"] if rows else None

    @cached_property
    def _table(self) -> list[Any]:
        """The function's rows of ``.debug_frame``; empty if it has none. Each variable of a place asks for them."""
        from elftools.dwarf.callframe import CallFrameInfo

        section, at = self._dwarf.debug_frame_sec, _frame_entries(self._dwarf).get(self.start)
        if at is None:
            return []
        info = CallFrameInfo(section.stream, section.size, section.address, self._dwarf.structs)
        entry: Any = info._parse_entry_at(at)
        table: list[Any] = entry.get_decoded().table
        rules = [row["cfa"] for row in table]
        has_pointer = any(rule.reg == FRAME_POINTER for rule in rules)
        self._largest = -1 if has_pointer else max((rule.offset for rule in rules), default=-1)
        shown = FRAME_POINTER if has_pointer else _LAST
        self._made = {shown: max((rule.offset for rule in rules if rule.reg == shown), default=0)}
        return table


@lru_cache(maxsize=2)
def _frame_entries(dwarf: Any) -> dict[int, int]:
    """Return the offset in ``.debug_frame`` of each function's entry, by the function's address (DWARF 5, 6.4.1)."""
    section, at, offsets = dwarf.debug_frame_sec, 0, dict[int, int]()
    if section is None:
        return offsets
    section.stream.seek(0)
    data = bytes(section.stream.read(section.size))
    while at + _FDE.size <= len(data):
        length, cie, start = _FDE.unpack_from(data, at)
        if cie != _CIE:
            offsets.setdefault(start, at)
        at += 4 + length
    return offsets
