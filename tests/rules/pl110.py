"""PL110: one record moved, the others not."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture, process
from tests.support.built import Mini
from tests.support.elf_edit import edit


def broken(mini: Mini) -> Arguments:
    with edit(mini(Spec())) as elf:
        slot = elf.slot_of("work_leaf")
        elf.set_record(slot, elf.record(slot) + 4)
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    """All of them moved."""
    return [process(mini(Spec()))]


FIXTURE = Fixture(broken, healthy, symbol="work_leaf")
