"""PL109: a record where no symbol is: that of the function is one instruction too late."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, made
from tests.support.elf_edit import ElfEdit


def damage(elf: ElfEdit, function: str = "work_leaf") -> None:
    row = elf.symbols[function]
    elf.set_symbol(function, value=row["st_value"] + 12, info=0x10)  # STB_GLOBAL, STT_NOTYPE


def healthy(elf: ElfEdit) -> None:
    """A local symbol without a type is a name, too."""
    elf.set_symbol("work_leaf", info=0x00)  # STB_LOCAL, STT_NOTYPE


FIXTURE = Fixture(made(Spec(), damage), made(Spec(), healthy))
