"""Offsets of struct members in BTF that is made here, and what of damaged BTF is said."""

from __future__ import annotations

import struct

import pytest

from prologue.dwarf.btf import Btf
from prologue.errors import InputError
from tests.support.btf import made_btf

STRUCTS: dict[str, tuple[int, list[tuple[str, str, int]]]] = {
    "hlist_node": (16, [("next", "", 0), ("pprev", "", 8)]),
    "anonymous inner": (16, [("insn", "", 8)]),
    "arch_insn": (24, [("", "anonymous inner", 8)]),
    "kprobe": (64, [("hlist", "hlist_node", 0), ("opcode", "", 16), ("ainsn", "arch_insn", 24)]),
    "probe": (8, [("next", "", 0)]),
}


def test_members_are_found_also_in_anonymous_structs() -> None:
    btf = Btf(made_btf(STRUCTS), "test")
    assert (btf.size("kprobe"), btf.size("probe"), btf.size("kprob")) == (64, 8, None)
    assert btf.offset("kprobe.opcode") == 16
    assert btf.offset("kprobe.hlist.pprev") == 8
    assert btf.offset("kprobe.ainsn.insn") == 24 + 8 + 8
    assert btf.offset("kprobe.opcode.next") is None
    assert btf.offset("kprobe.nothing") is None
    assert btf.offset("nothing.next") is None


def test_a_struct_within_itself_ends() -> None:
    circle = {"a": (8, [("", "a", 0), ("", "a", 0)])}
    assert Btf(made_btf(circle), "test").offset("a.next") is None


@pytest.mark.parametrize("kind", [20, 31])
def test_a_kind_that_is_not_known_yet(kind: int) -> None:
    """Where such a type ends is not known, so that nothing after it can be read."""
    data = bytearray(made_btf(STRUCTS))
    struct.pack_into("<I", data, 24 + 4, kind << 24)
    with pytest.raises(InputError, match="damaged, or of a version that is not known: type 1 has info"):
        Btf(bytes(data), "test")


def test_damage() -> None:
    good = made_btf(STRUCTS)
    for at in range(len(good)):
        with pytest.raises(InputError):
            Btf(good[:at], "test")
    for at in range(len(good)):
        for value in (0, 0xFF):
            bad = good[:at] + bytes([value]) + good[at + 1 :]
            try:
                Btf(bad, "test").offset("kprobe.ainsn.insn")
            except InputError:
                continue
