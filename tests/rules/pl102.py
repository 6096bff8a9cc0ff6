"""PL102: two relocations for one record, and none for its neighbour."""

from __future__ import annotations

import struct

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture, forget
from tests.support.built import Mini
from tests.support.elf_edit import edit


def broken(mini: Mini) -> Arguments:
    with edit(mini(Spec())) as elf:
        one, other = elf.live_slots()[:2]
        forget(elf, elf.record(one))  # the later entry wins, so this is the function that loses its record
        struct.pack_into("<Q", elf.data, elf.rela()[other], one)
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    """No relocation for it, and a zero record."""
    with edit(mini(Spec())) as elf:
        forget(elf, elf.record(elf.live_slots()[1]))
        entry = elf.rela()[elf.live_slots()[1]]
        elf.data[entry : entry + 24] = b"\0" * 24  # R_AARCH64_NONE
    return [elf.path]


FIXTURE = Fixture(broken, healthy)
