"""PL308: a jump label whose instruction may not be changed in a running kernel."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import B_LABEL_TARGET, MOV_X5_X5, Arguments, Fixture
from tests.support.built import Mini
from tests.support.elf_edit import edit


def broken(mini: Mini) -> Arguments:
    with edit(mini(Spec(labels=True))) as elf:
        elf.set_word(elf.value("label_user"), MOV_X5_X5)
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    with edit(mini(Spec(labels=True))) as elf:
        elf.set_word(elf.value("label_user"), B_LABEL_TARGET)
    return [elf.path]


FIXTURE = Fixture(broken, healthy, symbol="label_user")
