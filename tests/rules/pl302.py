"""PL302: a branch to the second slot."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit, edit


def _branch(elf: ElfEdit, distance: int) -> None:
    """Make the last word before work_leaf a branch to work_leaf plus a distance."""
    place = elf.value("work_nested") + 16
    elf.set_word(place, 0x14000000 | ((elf.value("work_leaf") + distance - place) // 4) & 0x3FFFFFF)


def broken(mini: Mini) -> Arguments:
    with edit(mini(Spec())) as elf:
        _branch(elf, 4)
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    with edit(mini(Spec())) as elf:
        _branch(elf, 0)
    return [elf.path]


FIXTURE = Fixture(broken, healthy, symbol="work_nested")
