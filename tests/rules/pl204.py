"""PL204: half of a call-ops literal is no NOP."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture
from tests.support.built import Mini
from tests.support.elf_edit import edit


def broken(mini: Mini) -> Arguments:
    with edit(mini(Spec(layout="4,2", bti=True))) as elf:
        elf.set_word(elf.value("work_leaf") - 4, 0)
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    return [mini(Spec(layout="4,2", bti=True))]


FIXTURE = Fixture(broken, healthy)
