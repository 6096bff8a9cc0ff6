"""PL403: a word changed that processing leaves alone."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture, copy_before, process
from tests.support.built import Mini
from tests.support.elf_edit import NOP, edit


def broken(mini: Mini) -> Arguments:
    vmlinux = mini(Spec())
    before = copy_before(vmlinux)
    with edit(process(vmlinux)) as elf:
        elf.set_word(elf.value("work_nested") + 16, NOP)
    return [vmlinux, "--against", before]


def healthy(mini: Mini) -> Arguments:
    vmlinux = mini(Spec())
    before = copy_before(vmlinux)
    return [process(vmlinux), "--against", before]


FIXTURE = Fixture(broken, healthy, symbol="work_nested")
