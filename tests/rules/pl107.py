"""PL107: two records exchanged in a table that the build has sorted."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, made
from tests.support.elf_edit import ElfEdit


def broken(elf: ElfEdit) -> None:
    one, other = elf.live_slots()[4:6]
    first, second = elf.record(one), elf.record(other)
    elf.set_record(one, second)
    elf.set_record(other, first)


FIXTURE = Fixture(made(Spec(zeros=True), broken), made(Spec(zeros=True)))
