"""PL102: two relocations for one record, and none for its neighbour."""

from __future__ import annotations

import struct

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, forget, made
from tests.support.elf_edit import ElfEdit


def broken(elf: ElfEdit) -> None:
    one, other = elf.live_slots()[:2]
    forget(elf, elf.record(one))  # the later entry wins, so this is the function that loses its record
    struct.pack_into("<Q", elf.data, elf.rela()[other], one)


def healthy(elf: ElfEdit) -> None:
    """No relocation for it, and a zero record."""
    forget(elf, elf.record(elf.live_slots()[1]))
    entry = elf.rela()[elf.live_slots()[1]]
    elf.data[entry : entry + 24] = b"\0" * 24  # R_AARCH64_NONE


FIXTURE = Fixture(made(Spec(), broken), made(Spec(), healthy))
