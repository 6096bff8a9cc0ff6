"""PL113: a relocation is led into a table of offsets."""

from __future__ import annotations

import struct

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, made
from tests.support.elf_edit import ElfEdit


def broken(elf: ElfEdit) -> None:
    entry = min(elf.rela()[place] for place in elf.rela() if place)
    struct.pack_into("<Q", elf.data, entry, elf.value("__start_mcount_loc") + 8)


FIXTURE = Fixture(made(Spec(marker=2), broken, processed=True), made(Spec(marker=2), processed=True))
