"""PL503: an instruction of a running kernel that no mechanism owns, and that is not the one of the file."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import AUDIT, Arguments, Fixture, as_running, process
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit

RET = 0xD65F03C0


def broken(mini: Mini) -> Arguments:
    path = process(mini(Spec(form="relr")))
    return as_running(path, {ElfEdit(path).value("_stext"): RET})


def healthy(mini: Mini) -> Arguments:
    path = process(mini(Spec(form="relr")))
    elf = ElfEdit(path)
    return as_running(path, {elf.value("_stext"): elf.word(elf.value("_stext"))})


FIXTURE = Fixture(broken, healthy, symbol="_stext", command=AUDIT)
