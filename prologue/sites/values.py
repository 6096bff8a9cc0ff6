"""What is known of a register's value while code is followed that does not run.

A value is a number; one of a few numbers; a record, perhaps moved by a number; an address in the record table; a
number that is not 0; what a register held when the function began; or not known (None). Numbers are of 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple


class Some(Enum):
    """Values without a number."""

    TABLE = "an address in the record table"
    NONZERO = "a value whose low 32 bits are not all 0"


class McountRecord(NamedTuple):
    """What the record table holds, plus a distance; None if paths give several distances."""

    moved: int | None = 0


class Entry(NamedTuple):
    """What a register held when the function began."""

    register: int
    what: str = "on entry"  # no other tuple is equal


Value = int | frozenset[int] | McountRecord | Entry | Some | None

ALL: Final = (1 << 64) - 1
LOW: Final = (1 << 32) - 1
_MOST: Final = 4  # numbers that one value may be


class Limits(NamedTuple):
    """Where the record table is (stop is not in it), and the lowest and highest record; None if not known."""

    table: tuple[int, int]
    records: tuple[int, int] | None = None

    def interval(self, value: Value) -> tuple[int, int] | None:
        """Lowest and highest number that it may be, unsigned."""
        if isinstance(value, int):
            return value, value
        if isinstance(value, frozenset):
            return min(value), max(value)
        if value is Some.TABLE:
            return self.table
        if isinstance(value, McountRecord) and value.moved is not None and self.records is not None:
            low, high = ((end + value.moved) & ALL for end in self.records)
            return (low, high) if low <= high else None
        return None

    def in_table(self, value: Value) -> bool:
        """Whether it can only be an address in the table, or the one after it."""
        (low, high), numbers = self.table, numbers_of(value)
        return value is Some.TABLE or (numbers is not None and all(low <= n <= high for n in numbers))

    def join(self, one: Value, two: Value, *, again: bool) -> Value:
        """What is known where two paths meet; ``again``: in a loop, where numbers may go on and on."""
        if one == two:
            return one
        if one is None or two is None:
            return None
        if isinstance(one, McountRecord) and isinstance(two, McountRecord):
            return McountRecord(None)
        if self.in_table(one) and self.in_table(two):
            return Some.TABLE
        if again:
            return None
        first, second = numbers_of(one), numbers_of(two)
        if first is not None and second is not None:
            return of_numbers(first | second)
        return Some.NONZERO if _not_zero(one) and _not_zero(two) else None


def _not_zero(value: Value) -> bool:
    """Whether the low 32 bits of a value cannot be all 0."""
    numbers = numbers_of(value)
    return value is Some.NONZERO or (numbers is not None and all(n & LOW for n in numbers))


def numbers_of(value: Value) -> frozenset[int] | None:
    """All that the value may be; None if that is not a few numbers."""
    if isinstance(value, int):
        return frozenset((value,))
    return value if isinstance(value, frozenset) else None


def of_numbers(numbers: frozenset[int]) -> Value:
    """The value that is one of the numbers."""
    if len(numbers) == 1:
        return next(iter(numbers))
    return numbers if len(numbers) <= _MOST else None


def apply(function: Callable[[int], int], value: Value) -> Value:
    """A function of one number, for each that the value may be."""
    if isinstance(value, int):
        return function(value) & ALL
    if isinstance(value, frozenset):
        return of_numbers(frozenset(function(n) & ALL for n in value))
    return None


def combine(function: Callable[[int, int], int], one: Value, two: Value) -> Value:
    """A function of two numbers, for all that the values may be."""
    if isinstance(one, int) and isinstance(two, int):
        return function(one, two) & ALL
    first, second = numbers_of(one), numbers_of(two)
    if first is None or second is None:
        return None
    return of_numbers(frozenset(function(a, b) & ALL for a in first for b in second))


def add(limits: Limits, one: Value, two: Value, *, minus: bool = False) -> Value:
    """Sum or difference of 64-bit values; an index into the table stays in the table."""
    if isinstance(one, int) and isinstance(two, int):
        return (one - two if minus else one + two) & ALL
    if isinstance(two, McountRecord) and not minus:
        one, two = two, one
    if isinstance(one, McountRecord):
        if isinstance(two, int) and one.moved is not None:
            moved = (one.moved - two if minus else one.moved + two) & ALL
            return McountRecord(moved - (1 << 64) if moved >> 63 else moved)
        return McountRecord(None) if two is None or isinstance(two, int | frozenset) else None
    exact = combine(lambda a, b: a - b if minus else a + b, one, two)
    if exact is not None:
        return exact
    if limits.in_table(one) and not limits.in_table(two) and not (minus and two is None):
        return Some.TABLE
    return Some.TABLE if limits.in_table(two) and not limits.in_table(one) and not minus else None


def is_zero(value: Value, bit: int | None = None) -> bool | None:
    """Whether a value, or one bit of it, is 0; None if that is not known. No record is 0 here, and no table."""
    numbers = numbers_of(value)
    if numbers is not None:
        answers = {not (n if bit is None else n >> bit & 1) for n in numbers}
        return answers.pop() if len(answers) == 1 else None
    known = isinstance(value, Some) or (isinstance(value, McountRecord) and value.moved is not None)
    return False if known and bit is None else None


def conditional(limits: Limits, condition: int, flags: Flags) -> bool | None:
    """Whether a condition (bits 3:0 of B.cond) holds; None if that is not known.

    Arm ARM, "ConditionHolds" in "Shared Pseudocode".
    """
    if condition >= 14:
        return True
    if flags is None:
        return None
    if isinstance(flags, int):
        return _holds(condition, flags)
    one, two = numbers_of(flags.one), numbers_of(flags.two)
    if one is not None and two is not None:
        answers = {_holds(condition, flags.nzcv(a, b)) for a in one for b in two}
        return answers.pop() if len(answers) == 1 else None
    return _compared(limits, condition, flags)


class FlagSource(NamedTuple):
    """Flags as the instruction left them: of ``one - two``, ``one + two`` or ``one & two``."""

    kind: str
    one: Value
    two: Value
    width: int

    def nzcv(self, one: int, two: int) -> int:
        """N, Z, C, V as bits 3 to 0 (Arm ARM, "AddWithCarry"; logical instructions clear C and V)."""
        mask = (1 << self.width) - 1
        one, two = one & mask, two & mask
        if self.kind == "and":
            result, carry, overflow = one & two, 0, 0
        else:
            other, carry_in = (two ^ mask, 1) if self.kind == "sub" else (two, 0)
            total = one + other + carry_in
            result, carry = total & mask, total >> self.width
            overflow = ((one ^ result) & (other ^ result)) >> self.width - 1
        return result >> self.width - 1 << 3 | (not result) << 2 | carry << 1 | overflow


Flags = FlagSource | int | None


def _holds(condition: int, nzcv: int) -> bool:
    n, z, c, v = (bool(nzcv & bit) for bit in (8, 4, 2, 1))
    base = (z, c, n, v, c and not z, n == v, n == v and not z, True)[condition >> 1]
    return base != bool(condition & 1) or condition == 15


def _compared(limits: Limits, condition: int, flags: FlagSource) -> bool | None:
    """A 64-bit comparison of which the sides are known as intervals, or one with 0."""
    base, negated = condition >> 1, bool(condition & 1)
    if flags.kind != "sub":
        return None
    if flags.one is Some.NONZERO and flags.two == 0 and base == 0:
        return negated
    if flags.width != 64:
        return None
    first, second = limits.interval(flags.one), limits.interval(flags.two)
    if first is None or second is None:
        return None
    (low, high), (lowest, highest) = first, second
    answer: bool | None = None
    if base == 0:  # EQ
        answer = False if high < lowest or highest < low else None
    elif base in (1, 5):  # HS; GE
        answer = True if low >= highest else False if high < lowest else None
    elif base in (4, 6):  # HI; GT
        answer = True if low > highest else False if high <= lowest else None
    if base in (5, 6) and len({end >> 63 for end in (*first, *second)}) != 1:
        return None  # signed, and the sides may have different signs
    return None if answer is None else answer != negated
