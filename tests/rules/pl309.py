"""PL309: a jump label whose branch leads somewhere else."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import B_LABEL_TARGET, Arguments, Fixture
from tests.support.built import Mini
from tests.support.elf_edit import edit

B_NEXT = 0x14000001


def broken(mini: Mini) -> Arguments:
    with edit(mini(Spec(labels=True))) as elf:
        elf.set_word(elf.value("label_user"), B_NEXT)
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    with edit(mini(Spec(labels=True))) as elf:
        elf.set_word(elf.value("label_user"), B_LABEL_TARGET)
    return [elf.path]


FIXTURE = Fixture(broken, healthy, symbol="label_user")
