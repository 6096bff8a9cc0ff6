"""PL303: a pointer to the second slot."""

from __future__ import annotations

import struct

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit, edit


def _point(elf: ElfEdit, distance: int) -> None:
    """Let the first pointer of work_table lead so much further."""
    addend = elf.rela()[elf.value("work_table")] + 16
    struct.pack_into("<q", elf.data, addend, struct.unpack_from("<q", elf.data, addend)[0] + distance)


def broken(mini: Mini) -> Arguments:
    with edit(mini(Spec())) as elf:
        _point(elf, 4)
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    with edit(mini(Spec())) as elf:
        _point(elf, 8)
    return [elf.path]


FIXTURE = Fixture(broken, healthy, symbol="work_table")
