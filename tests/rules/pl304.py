"""PL304: a function that reads X9 before it writes it."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, made
from tests.support.elf_edit import ElfEdit

ADD_X0_X9 = 0x8B090000
MOV_W9_0 = 0x52800009
ADD_W9_W9 = 0x11000529


def damage(elf: ElfEdit) -> None:
    elf.set_word(elf.value("work_leaf") + 8, ADD_X0_X9)


def healthy(elf: ElfEdit) -> None:
    """A write comes first."""
    elf.set_word(elf.value("work_leaf") + 8, MOV_W9_0)
    elf.set_word(elf.value("work_leaf") + 12, ADD_W9_W9)


FIXTURE = Fixture(made(Spec(), damage), made(Spec(), healthy), symbol="work_leaf")
