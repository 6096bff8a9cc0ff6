"""PL109: a record where no symbol is: that of the function is one instruction too late."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit, edit


def damage(elf: ElfEdit, function: str = "work_leaf") -> None:
    row = elf.symbols[function]
    elf.set_symbol(function, value=row["st_value"] + 12, info=0x10)  # STB_GLOBAL, STT_NOTYPE


def broken(mini: Mini) -> Arguments:
    with edit(mini(Spec())) as elf:
        damage(elf)
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    """A local symbol without a type is a name, too."""
    with edit(mini(Spec())) as elf:
        elf.set_symbol("work_leaf", info=0x00)  # STB_LOCAL, STT_NOTYPE
    return [elf.path]


FIXTURE = Fixture(broken, healthy)
