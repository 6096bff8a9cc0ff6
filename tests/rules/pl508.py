"""PL508: a jump label that branches although its key is off."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import AUDIT, B_LABEL_TARGET, Arguments, Fixture, as_running, process
from tests.support.built import Mini
from tests.support.elf_edit import NOP, ElfEdit


def label(mini: Mini, word: int) -> Arguments:
    path = process(mini(Spec(form="relr", labels=True)))
    return as_running(path, {ElfEdit(path).value("label_user"): word})


def broken(mini: Mini) -> Arguments:
    return label(mini, B_LABEL_TARGET)


def healthy(mini: Mini) -> Arguments:
    return label(mini, NOP)


FIXTURE = Fixture(broken, healthy, symbol="label_user", command=AUDIT)
