"""PL112: functions begin with pairs, and the record table is empty."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture, forget
from tests.support.built import Mini
from tests.support.elf_edit import edit


def broken(mini: Mini) -> Arguments:
    with edit(mini(Spec(contract="stock"))) as elf:
        elf.set_symbol("__stop_mcount_loc", value=elf.value("__start_mcount_loc"))
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    """No pairs either: a kernel in which nothing is traced."""
    with edit(mini(Spec(contract="stock"))) as elf:
        for slot in elf.live_slots():
            forget(elf, elf.record(slot))
        elf.set_symbol("__stop_mcount_loc", value=elf.value("__start_mcount_loc"))
    return [elf.path]


FIXTURE = Fixture(broken, healthy, contract="stock")
