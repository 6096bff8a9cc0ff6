"""PL202: one site has its prologue, the others do not."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture, process
from tests.support.built import Mini
from tests.support.elf_edit import MOV, edit


def broken(mini: Mini) -> Arguments:
    with edit(mini(Spec())) as elf:
        elf.set_word(elf.value("work_leaf"), MOV)
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    """All of them have it."""
    return [process(mini(Spec()))]


FIXTURE = Fixture(broken, healthy, symbol="work_leaf", finished=True)
