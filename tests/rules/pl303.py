"""PL303: a pointer to the second slot."""

from __future__ import annotations

import struct

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, made
from tests.support.elf_edit import ElfEdit


def _point(elf: ElfEdit, distance: int) -> None:
    """Let the first pointer of work_table lead so much further."""
    addend = elf.rela()[elf.value("work_table")] + 16
    struct.pack_into("<q", elf.data, addend, struct.unpack_from("<q", elf.data, addend)[0] + distance)


FIXTURE = Fixture(
    made(Spec(), lambda elf: _point(elf, 4)),
    made(Spec(), lambda elf: _point(elf, 8)),
    symbol="work_table",
)
