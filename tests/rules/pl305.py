"""PL305: a jump label on a slot."""

from __future__ import annotations

import struct

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, made
from tests.support.elf_edit import NOP, ElfEdit


def _aim_label(elf: ElfEdit, place: int) -> None:
    """Let the jump label's entry name another instruction, and one to branch to in the same function."""
    entry = next(s["sh_addr"] for s in elf.elf.iter_sections() if s.name == "__jump_table")
    struct.pack_into("<ii", elf.data, elf.offset(entry), place - entry, place + 8 - (entry + 4))


def healthy(elf: ElfEdit) -> None:
    """On a NOP that is in no pair."""
    elf.set_word(elf.value("work_nested") + 16, NOP)
    _aim_label(elf, elf.value("work_nested") + 16)


FIXTURE = Fixture(
    made(Spec(labels=True), lambda elf: _aim_label(elf, elf.value("work_leaf") + 4)),
    made(Spec(labels=True), healthy),
    symbol="work_leaf",
)
