"""PL501: a running kernel whose function lost its MOV."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import AUDIT, Arguments, Fixture, as_running, process
from tests.support.built import Mini
from tests.support.elf_edit import NOP, ElfEdit


def broken(mini: Mini) -> Arguments:
    path = process(mini(Spec(form="relr")))
    return as_running(path, {ElfEdit(path).value("work_leaf"): NOP})


def healthy(mini: Mini) -> Arguments:
    return as_running(process(mini(Spec(form="relr"))), {})


FIXTURE = Fixture(broken, healthy, symbol="work_leaf", command=AUDIT)
