"""PL114: relocations after an entry of zeros."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, made
from tests.support.elf_edit import ElfEdit


def broken(elf: ElfEdit) -> None:
    entry = min(elf.rela()[place] for place in elf.rela() if place)
    elf.data[entry : entry + 24] = bytes(24)


FIXTURE = Fixture(made(Spec(marker=2), broken, processed=True), made(Spec(marker=2), processed=True))
