"""PL306: ftrace_caller just out of reach."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture
from tests.support.built import Mini
from tests.support.elf_edit import edit

REACH = 128 << 20


def broken(mini: Mini) -> Arguments:
    with edit(mini(Spec())) as elf:
        elf.set_symbol("ftrace_caller", value=elf.value("work_leaf") + 4 + REACH + 4096)
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    with edit(mini(Spec())) as elf:
        elf.set_symbol("ftrace_caller", value=elf.value("work_empty") + 4 + REACH - 4096)
    return [elf.path]


FIXTURE = Fixture(broken, healthy)
