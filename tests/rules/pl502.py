"""PL502: a function of a running kernel that calls another one where it should call ftrace."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import AUDIT, Arguments, Fixture, as_running, process
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit


def call(mini: Mini, target: str) -> Arguments:
    path = process(mini(Spec(form="relr")))
    elf = ElfEdit(path)
    second = elf.value("work_leaf") + 4
    return as_running(path, {second: 0x94000000 | (elf.value(target) - second) // 4 & 0x3FFFFFF})


def broken(mini: Mini) -> Arguments:
    return call(mini, "work_add")


def healthy(mini: Mini) -> Arguments:
    return call(mini, "ftrace_caller")


FIXTURE = Fixture(broken, healthy, symbol="work_leaf", command=AUDIT)
