"""Immediates and bit fields against keystone, and against what the instructions are said to do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from prologue.insn.bitmask import bitfield, extended, logical_immediate, shifted
from tests.support.assembler import assemble

ALL = (1 << 64) - 1
values = st.integers(0, ALL)


@given(st.sampled_from([2, 4, 8, 16, 32, 64]), st.data())
def test_logical_immediates_are_what_the_assembler_takes(size: int, data: st.DataObject) -> None:
    ones, rotate = data.draw(st.integers(1, size - 1)), data.draw(st.integers(0, size - 1))
    run = (1 << ones) - 1
    element = (run >> rotate | run << size - rotate) & (1 << size) - 1
    mask = sum(element << at for at in range(0, 64, size))
    assert logical_immediate(assemble(f"and x3, x4, #{mask:#x}")) == mask
    if size < 64:
        low = logical_immediate(assemble(f"orr w3, w4, #{mask & 0xFFFFFFFF:#x}"))
        assert low is not None
        assert low & 0xFFFFFFFF == mask & 0xFFFFFFFF


def test_reserved_logical_immediates() -> None:
    assert logical_immediate(0x9240FC00) is None  # 64 ones
    assert logical_immediate(0x12400000) is None  # N in a W register
    assert logical_immediate(0x9200FC00) is None  # no length


@given(st.integers(0, 63), st.data(), values, values)
def test_bit_fields(low: int, data: st.DataObject, source: int, old: int) -> None:
    width = data.draw(st.integers(1, 64 - low))
    field, mask = source >> low & (1 << width) - 1, (1 << width) - 1
    assert bitfield(assemble(f"ubfx x0, x1, #{low}, #{width}"), source, 0) == field
    signed = field - (1 << width) if field >> width - 1 else field
    assert bitfield(assemble(f"sbfx x0, x1, #{low}, #{width}"), source, 0) == signed & ALL
    inserted = old & ~(mask << low) | (source & mask) << low
    assert bitfield(assemble(f"bfi x0, x1, #{low}, #{width}"), source, old) == inserted & ALL
    assert bitfield(assemble(f"lsl x0, x1, #{low}"), source, 0) == source << low & ALL
    assert bitfield(assemble(f"lsr w0, w1, #{low % 32}"), source, 0) == (source & 0xFFFFFFFF) >> low % 32


@given(values, st.integers(0, 63))
def test_shifts_and_extensions(value: int, amount: int) -> None:
    assert shifted(value, 0, amount, 64) == value << amount & ALL
    assert shifted(value, 1, amount, 64) == value >> amount
    assert shifted(value, 2, amount, 64) == (value - (value >> 63 << 64) >> amount) & ALL
    assert shifted(shifted(value, 3, amount, 64), 3, 64 - amount, 64) == value
    assert shifted(value, 1, amount, 32) == (value & 0xFFFFFFFF) >> amount % 32
    low = value & 0xFFFFFFFF
    assert extended(value, 2, 3) == low << 3
    assert extended(value, 6, 0) == (low - (low >> 31 << 32)) & ALL
    assert extended(value, 0, 0) == value & 0xFF
