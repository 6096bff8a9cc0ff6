"""PL405: a signature that is longer than the file."""

from __future__ import annotations

import struct

from tests.mini_module.build import ModuleSpec
from tests.rules.fixture import Arguments, Fixture
from tests.support.built import Mini
from tests.support.elf_edit import edit, sign


def broken(mini: Mini) -> Arguments:
    with edit(mini(ModuleSpec())) as elf:
        sign(elf)
        struct.pack_into(">I", elf.data, len(elf.data) - 32, len(elf.data))
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    with edit(mini(ModuleSpec())) as elf:
        sign(elf)
    return [elf.path]


FIXTURE = Fixture(broken, healthy)
