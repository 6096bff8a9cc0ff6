"""PL106: two records of one function."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture, forget
from tests.support.built import Mini
from tests.support.elf_edit import edit


def broken(mini: Mini) -> Arguments:
    with edit(mini(Spec())) as elf:
        elf.set_record(elf.slot_of("work_leaf"), elf.record(elf.slot_of("work_empty")))
        forget(elf, elf.value("work_leaf"))
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    return [mini(Spec())]


FIXTURE = Fixture(broken, healthy, symbol="work_empty")
