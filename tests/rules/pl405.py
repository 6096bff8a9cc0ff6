"""PL405: a signature that is longer than the file."""

from __future__ import annotations

import struct

from tests.mini_module.build import ModuleSpec
from tests.rules.fixture import Fixture, made
from tests.support.elf_edit import ElfEdit, sign


def broken(elf: ElfEdit) -> None:
    sign(elf)
    struct.pack_into(">I", elf.data, len(elf.data) - 32, len(elf.data))


FIXTURE = Fixture(made(ModuleSpec(), broken), made(ModuleSpec(), sign))
