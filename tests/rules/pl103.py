"""PL103: a record with an absolute relocation in a file that has relative ones."""

from __future__ import annotations

import struct

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, forget, made
from tests.support.elf_edit import ElfEdit


def broken(elf: ElfEdit) -> None:
    slot = elf.live_slots()[3]
    forget(elf, elf.record(slot))
    struct.pack_into("<Q", elf.data, elf.rela()[slot] + 8, 0x101)  # R_AARCH64_ABS64


FIXTURE = Fixture(made(Spec(), broken), made(Spec()))
