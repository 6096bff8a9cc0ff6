"""PL306: ftrace_caller just out of reach."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, made

REACH = 128 << 20

FIXTURE = Fixture(
    made(Spec(), lambda elf: elf.set_symbol("ftrace_caller", value=elf.value("work_leaf") + 4 + REACH + 4096)),
    made(Spec(), lambda elf: elf.set_symbol("ftrace_caller", value=elf.value("work_empty") + 4 + REACH - 4096)),
)
