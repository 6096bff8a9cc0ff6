"""PL114: relocations after an entry of zeros."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture, process
from tests.support.built import Mini
from tests.support.elf_edit import edit


def broken(mini: Mini) -> Arguments:
    with edit(process(mini(Spec(marker=2)))) as elf:
        entry = min(elf.rela()[place] for place in elf.rela() if place)
        elf.data[entry : entry + 24] = bytes(24)
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    return [process(mini(Spec(marker=2)))]


FIXTURE = Fixture(broken, healthy)
