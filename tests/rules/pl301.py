"""PL301: a site in code that runs before the kernel is mapped."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, made

FIXTURE = Fixture(
    made(Spec(), lambda elf: elf.rename_symbol("work_fibonacci", "__pi_fib")),
    made(Spec(), lambda elf: elf.rename_symbol("work_fibonacci", "_pi_fib")),
    symbol="__pi_fib",
)
