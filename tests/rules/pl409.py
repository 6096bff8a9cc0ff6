"""PL409: another pointer than the records has lost its relocation."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture, copy_before, process
from tests.support.built import Mini
from tests.support.elf_edit import edit


def broken(mini: Mini) -> Arguments:
    vmlinux = mini(Spec(marker=2))
    before = copy_before(vmlinux)
    with edit(process(vmlinux)) as elf:
        entry = max(elf.rela()[place] for place in elf.rela() if place)
        elf.data[entry : entry + 24] = bytes(24)
    return [vmlinux, "--against", before]


def healthy(mini: Mini) -> Arguments:
    vmlinux = mini(Spec(marker=2))
    before = copy_before(vmlinux)
    return [process(vmlinux), "--against", before]


FIXTURE = Fixture(broken, healthy)
