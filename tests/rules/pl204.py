"""PL204: half of a call-ops literal is no NOP."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, made

FIXTURE = Fixture(
    made(Spec(layout="4,2", bti=True), lambda elf: elf.set_word(elf.value("work_leaf") - 4, 0)),
    made(Spec(layout="4,2", bti=True)),
)
