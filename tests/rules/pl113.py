"""PL113: a relocation is led into a table of offsets."""

from __future__ import annotations

import struct

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture, process
from tests.support.built import Mini
from tests.support.elf_edit import edit


def broken(mini: Mini) -> Arguments:
    with edit(process(mini(Spec(marker=2)))) as elf:
        entry = min(elf.rela()[place] for place in elf.rela() if place)
        struct.pack_into("<Q", elf.data, entry, elf.value("__start_mcount_loc") + 8)
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    return [process(mini(Spec(marker=2)))]


FIXTURE = Fixture(broken, healthy)
