"""PL104: a slot that says something else than its addend."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, made
from tests.support.elf_edit import ElfEdit


def broken(elf: ElfEdit) -> None:
    slot = elf.live_slots()[3]
    elf.set_quad(slot, elf.record(slot) + 64)


FIXTURE = Fixture(
    made(Spec(form="rela-applied"), broken),
    made(Spec(form="rela-applied"), processed=True),  # processing moves both
)
