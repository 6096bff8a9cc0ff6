"""Bit fields that lie across words of memory, or in one of several registers, and pointers in memory."""

from __future__ import annotations

import pytest

from prologue.dwarf.c_types import CType, Member, pointer_to
from prologue.probe.fetch import FetchedValue, FetchError, fetch, follow
from prologue.probe.language import parse_argument
from prologue.probe.storage import InMemory, InRegister, Missing, Pieces, Storage, Sum

U32 = CType(kind="int", name="u32", size=4)
U64 = CType(kind="int", name="u64", size=8)
TWO = Pieces(((64, InRegister("%x2")), (64, InRegister("%x3"))))


@pytest.mark.parametrize(
    ("storage", "type_", "bit_offset", "bits", "text"),
    [
        (InMemory("%x0"), U32, 35, 7, "+4(%x0):b7@3/32"),
        (InMemory("%x0"), U32, 28, 9, "+0(%x0):b9@28/64"),
        (InMemory("%x0"), U64, 40, 40, "+5(%x0):b40@0/64"),  # packed: across two words of 64 bits
        (TWO, U32, 69, 9, "%x3:b9@5/64"),
        (TWO, U32, 100, 20, "%x3:b20@36/64"),
        (TWO, U32, 3, 4, "%x2:b4@3/64"),
    ],
)
def test_a_bit_field(storage: Storage, type_: CType, bit_offset: int, bits: int, text: str) -> None:
    found = fetch(FetchedValue(type_, storage, bit_offset, bits))
    assert f"{found.text}:{found.type}" == text


@pytest.mark.parametrize(
    ("storage", "bit_offset", "bits", "reason"),
    [
        (InMemory("%x0"), 5, 60, "nine bytes"),
        (TWO, 60, 8, "several registers at once"),
        (Pieces(((64, Missing("it is nowhere")),)), 3, 4, "it is nowhere"),
    ],
)
def test_no_such_bit_field(storage: Storage, bit_offset: int, bits: int, reason: str) -> None:
    with pytest.raises(FetchError, match=reason):
        fetch(FetchedValue(U64, storage, bit_offset, bits))


@pytest.mark.parametrize(
    ("storage", "asked", "text"),
    [
        (InMemory("@ptr", is_symbol=True), "ptr", "@ptr"),
        (InMemory("@ptr", is_symbol=True), "ptr->second", "+4(@ptr)"),
        (InMemory("@some", 16, is_symbol=True), "ptr->second", "+4(@some+16)"),
        (InMemory("@some", 16, is_symbol=True), "ptr->next->second", "+4(+8(@some+16))"),
        (InMemory("%sp", 16), "ptr->second", "+4(+16(%sp))"),
        (Sum("@some", 16), "ptr->second", "@some+20"),
        (Sum("%x1", 16), "ptr->second", "+20(%x1)"),
    ],
)
def test_what_a_pointer_points_to(storage: Storage, asked: str, text: str) -> None:
    members = Member("first", U32, 0, 0), Member("second", U32, 32, 0)

    def struct() -> CType:
        return CType(
            kind="struct", name="struct s", size=16, find_members=lambda: (*members, Member("next", ptr, 64, 0))
        )

    ptr = pointer_to(struct, "struct s")
    assert fetch(follow(FetchedValue(ptr, storage), parse_argument(asked).steps)).text == text


def test_text_by_a_pointer_of_the_kernel() -> None:
    text = pointer_to(lambda: CType(kind="int", name="char", size=1), "char")
    assert fetch(FetchedValue(text, InMemory("@ptr", is_symbol=True)), "string").text == "+0(@ptr)"
