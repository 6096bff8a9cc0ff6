"""PL401: prologues and moved records in a stock kernel."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture
from tests.support.built import Mini
from tests.support.elf_edit import MOV, edit


def broken(mini: Mini) -> Arguments:
    with edit(mini(Spec(contract="stock"))) as elf:
        for slot in elf.live_slots():
            elf.set_word(elf.record(slot), MOV)
            elf.set_record(slot, elf.record(slot) + 4)
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    return [mini(Spec(contract="stock"))]


FIXTURE = Fixture(broken, healthy, contract="stock")
