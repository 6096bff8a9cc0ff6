"""PL309: a jump label whose branch leads somewhere else."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import B_LABEL_TARGET, Fixture, made

B_NEXT = 0x14000001

FIXTURE = Fixture(
    made(Spec(labels=True), lambda elf: elf.set_word(elf.value("label_user"), B_NEXT)),
    made(Spec(labels=True), lambda elf: elf.set_word(elf.value("label_user"), B_LABEL_TARGET)),
    symbol="label_user",
)
