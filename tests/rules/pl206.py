"""PL206: a function has its pair and no record."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, forget, made
from tests.support.elf_edit import ElfEdit


def _drop_record(elf: ElfEdit) -> None:
    """Its relocation included."""
    entry = elf.rela()[elf.slot_of("work_leaf")]
    elf.data[entry : entry + 24] = b"\0" * 24


def healthy(elf: ElfEdit) -> None:
    """Neither record nor pair."""
    _drop_record(elf)
    forget(elf, elf.value("work_leaf"))


FIXTURE = Fixture(made(Spec(), _drop_record), made(Spec(), healthy), symbol="work_leaf")
