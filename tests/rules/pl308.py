"""PL308: a jump label whose instruction may not be changed in a running kernel."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import B_LABEL_TARGET, MOV_X5_X5, Fixture, made

FIXTURE = Fixture(
    made(Spec(labels=True), lambda elf: elf.set_word(elf.value("label_user"), MOV_X5_X5)),
    made(Spec(labels=True), lambda elf: elf.set_word(elf.value("label_user"), B_LABEL_TARGET)),
    symbol="label_user",
)
