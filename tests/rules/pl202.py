"""PL202: one site has its prologue, the others do not."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, made
from tests.support.elf_edit import MOV

FIXTURE = Fixture(
    made(Spec(), lambda elf: elf.set_word(elf.value("work_leaf"), MOV)),
    made(Spec(), processed=True),  # all of them have it
    symbol="work_leaf",
    finished=True,
)
