"""PL305: a jump label on a slot."""

from __future__ import annotations

import struct

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture
from tests.support.built import Mini
from tests.support.elf_edit import NOP, ElfEdit, edit


def _aim_label(elf: ElfEdit, place: int) -> None:
    """Let the jump label's entry name another instruction, and one to branch to in the same function."""
    entry = next(s["sh_addr"] for s in elf.elf.iter_sections() if s.name == "__jump_table")
    struct.pack_into("<ii", elf.data, elf.offset(entry), place - entry, place + 8 - (entry + 4))


def broken(mini: Mini) -> Arguments:
    with edit(mini(Spec(labels=True))) as elf:
        _aim_label(elf, elf.value("work_leaf") + 4)
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    """On a NOP that is in no pair."""
    with edit(mini(Spec(labels=True))) as elf:
        elf.set_word(elf.value("work_nested") + 16, NOP)
        _aim_label(elf, elf.value("work_nested") + 16)
    return [elf.path]


FIXTURE = Fixture(broken, healthy, symbol="work_leaf")
