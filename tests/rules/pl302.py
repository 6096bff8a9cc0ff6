"""PL302: a branch to the second slot."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, made
from tests.support.elf_edit import ElfEdit


def _branch(elf: ElfEdit, distance: int) -> None:
    """Make the last word before work_leaf a branch to work_leaf plus a distance."""
    place = elf.value("work_nested") + 16
    elf.set_word(place, 0x14000000 | ((elf.value("work_leaf") + distance - place) // 4) & 0x3FFFFFF)


FIXTURE = Fixture(
    made(Spec(), lambda elf: _branch(elf, 4)),
    made(Spec(), lambda elf: _branch(elf, 0)),
    symbol="work_nested",
)
