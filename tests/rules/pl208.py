"""PL208: a function that begins where the kernel takes its second slot to be, as =2,1 makes them."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture
from tests.support.built import Mini
from tests.support.elf_edit import edit


def broken(mini: Mini) -> Arguments:
    with edit(mini(Spec())) as elf:
        elf.set_symbol("work_leaf", value=elf.value("work_leaf") + 4)
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    """Two slots of its own."""
    return [mini(Spec())]


FIXTURE = Fixture(broken, healthy, symbol="work_leaf")
