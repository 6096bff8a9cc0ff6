"""PL206: a function has its pair and no record."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture, forget
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit, edit


def _drop_record(elf: ElfEdit) -> None:
    """Its relocation included."""
    entry = elf.rela()[elf.slot_of("work_leaf")]
    elf.data[entry : entry + 24] = b"\0" * 24


def broken(mini: Mini) -> Arguments:
    with edit(mini(Spec())) as elf:
        _drop_record(elf)
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    """Neither record nor pair."""
    with edit(mini(Spec())) as elf:
        _drop_record(elf)
        forget(elf, elf.value("work_leaf"))
    return [elf.path]


FIXTURE = Fixture(broken, healthy, symbol="work_leaf")
