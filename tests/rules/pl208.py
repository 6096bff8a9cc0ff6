"""PL208: a function that begins where the kernel takes its second slot to be, as =2,1 makes them."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, made

FIXTURE = Fixture(
    made(Spec(), lambda elf: elf.set_symbol("work_leaf", value=elf.value("work_leaf") + 4)),
    made(Spec()),  # two slots of its own
    symbol="work_leaf",
)
