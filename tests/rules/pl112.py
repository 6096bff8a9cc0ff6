"""PL112: functions begin with pairs, and the record table is empty."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, forget, made
from tests.support.elf_edit import ElfEdit


def broken(elf: ElfEdit) -> None:
    elf.set_symbol("__stop_mcount_loc", value=elf.value("__start_mcount_loc"))


def healthy(elf: ElfEdit) -> None:
    """No pairs either: a kernel in which nothing is traced."""
    for slot in elf.live_slots():
        forget(elf, elf.record(slot))
    elf.set_symbol("__stop_mcount_loc", value=elf.value("__start_mcount_loc"))


FIXTURE = Fixture(
    made(Spec(contract="stock"), broken),
    made(Spec(contract="stock"), healthy),
    contract="stock",
)
