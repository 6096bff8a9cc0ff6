"""PL101: a start symbol that cuts the first record in half, in a kernel whose code PL407 does not follow."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture, forget
from tests.support.built import Mini
from tests.support.elf_edit import edit


def broken(mini: Mini) -> Arguments:
    with edit(mini(Spec(contract="stock"))) as elf:
        elf.set_symbol("__start_mcount_loc", value=elf.value("__start_mcount_loc") + 4)
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    """One whole record later."""
    with edit(mini(Spec(contract="stock"))) as elf:
        forget(elf, elf.record(elf.slots()[0]))
        elf.set_symbol("__start_mcount_loc", value=elf.value("__start_mcount_loc") + 8)
    return [elf.path]


FIXTURE = Fixture(broken, healthy, contract="stock")
