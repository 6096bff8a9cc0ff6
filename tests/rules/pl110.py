"""PL110: one record moved, the others not."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, made
from tests.support.elf_edit import ElfEdit


def broken(elf: ElfEdit) -> None:
    slot = elf.slot_of("work_leaf")
    elf.set_record(slot, elf.record(slot) + 4)


FIXTURE = Fixture(
    made(Spec(), broken),
    made(Spec(), processed=True),  # all of them moved
    symbol="work_leaf",
)
