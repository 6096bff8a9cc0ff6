"""PL105: a record that points at the records."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, forget, made
from tests.support.elf_edit import ElfEdit


def broken(elf: ElfEdit) -> None:
    elf.set_record(elf.slot_of("work_leaf"), elf.value("__start_mcount_loc"))
    forget(elf, elf.value("work_leaf"))


FIXTURE = Fixture(made(Spec(), broken), made(Spec()))
