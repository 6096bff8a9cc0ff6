"""PL203: the prologue took the place of the landing pad."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture, process
from tests.support.built import Mini
from tests.support.elf_edit import BTI_C, MOV, edit


def broken(mini: Mini) -> Arguments:
    with edit(mini(Spec(layout="4,2", bti=True))) as elf:
        start = elf.value("work_leaf")
        assert elf.word(start) == BTI_C
        elf.set_word(start, MOV)
        elf.set_word(start + 4, BTI_C)
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    return [process(mini(Spec(layout="4,2", bti=True)))]


FIXTURE = Fixture(broken, healthy, symbol="work_leaf")
