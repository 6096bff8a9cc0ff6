"""PL301: a site in code that runs before the kernel is mapped."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture
from tests.support.built import Mini
from tests.support.elf_edit import edit


def broken(mini: Mini) -> Arguments:
    with edit(mini(Spec())) as elf:
        elf.rename_symbol("work_fibonacci", "__pi_fib")
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    with edit(mini(Spec())) as elf:
        elf.rename_symbol("work_fibonacci", "_pi_fib")
    return [elf.path]


FIXTURE = Fixture(broken, healthy, symbol="__pi_fib")
