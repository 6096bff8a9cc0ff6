"""PL203: the prologue took the place of the landing pad."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, made
from tests.support.elf_edit import BTI_C, MOV, ElfEdit


def broken(elf: ElfEdit) -> None:
    start = elf.value("work_leaf")
    assert elf.word(start) == BTI_C
    elf.set_word(start, MOV)
    elf.set_word(start + 4, BTI_C)


FIXTURE = Fixture(
    made(Spec(layout="4,2", bti=True), broken), made(Spec(layout="4,2", bti=True), processed=True), symbol="work_leaf"
)
