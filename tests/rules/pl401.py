"""PL401: prologues and moved records in a stock kernel."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, made
from tests.support.elf_edit import MOV, ElfEdit


def broken(elf: ElfEdit) -> None:
    for slot in elf.live_slots():
        elf.set_word(elf.record(slot), MOV)
        elf.set_record(slot, elf.record(slot) + 4)


FIXTURE = Fixture(made(Spec(contract="stock"), broken), made(Spec(contract="stock")), contract="stock")
