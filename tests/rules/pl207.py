"""PL207: PACIASP before the pair."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, made
from tests.support.elf_edit import BTI_C, NOP, ElfEdit

PACIASP = 0xD503233F


def _move_pair(elf: ElfEdit, before: int) -> None:
    """Put the pair one word later, the record too, and an instruction where it was."""
    slot, start = elf.slot_of("work_struct"), elf.value("work_struct")
    elf.set_word(start, before)
    elf.set_word(start + 8, NOP)
    elf.set_record(slot, start + 4)


FIXTURE = Fixture(
    made(Spec(), lambda elf: _move_pair(elf, PACIASP)),
    made(Spec(), lambda elf: _move_pair(elf, BTI_C)),
    symbol="work_struct",
)
