"""PL201: a BL where the second NOP belongs."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit, edit

BL_SOMEWHERE = 0x94000010


def damage(elf: ElfEdit) -> None:
    elf.set_word(elf.value("work_leaf") + 4, BL_SOMEWHERE)


def broken(mini: Mini) -> Arguments:
    with edit(mini(Spec())) as elf:
        damage(elf)
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    return [mini(Spec())]


FIX = (
    "find what wrote there after the compiler, or compile that object with the flags of the kernel (CC_FLAGS_FTRACE in"
    " arch/arm64/Makefile): objects of -fpatchable-function-entry=1 look like that; link again"
)
FIXTURE = Fixture(broken, healthy, symbol="work_leaf", fix=FIX)
