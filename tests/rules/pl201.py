"""PL201: a BL where the second NOP belongs."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, made
from tests.support.elf_edit import ElfEdit

BL_SOMEWHERE = 0x94000010


def damage(elf: ElfEdit) -> None:
    elf.set_word(elf.value("work_leaf") + 4, BL_SOMEWHERE)


FIX = (
    "find what wrote there after the compiler, or compile that object with the flags of the kernel (CC_FLAGS_FTRACE in"
    " arch/arm64/Makefile): objects of -fpatchable-function-entry=1 look like that; link again"
)
FIXTURE = Fixture(made(Spec(), damage), made(Spec()), symbol="work_leaf", fix=FIX)
