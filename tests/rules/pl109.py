"""PL109: a record at a label instead of a function."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit, edit


def damage(elf: ElfEdit) -> None:
    elf.set_symbol("work_leaf", info=0x10)  # STB_GLOBAL, STT_NOTYPE


def broken(mini: Mini) -> Arguments:
    with edit(mini(Spec())) as elf:
        damage(elf)
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    with edit(mini(Spec())) as elf:
        elf.set_symbol("work_leaf", info=0x02)  # STB_LOCAL, STT_FUNC
    return [elf.path]


FIXTURE = Fixture(broken, healthy, symbol="work_leaf")
