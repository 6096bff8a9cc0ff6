"""PL101: a start symbol that cuts the first record in half, in a kernel whose code PL407 does not follow."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, forget, made
from tests.support.elf_edit import ElfEdit


def broken(elf: ElfEdit) -> None:
    elf.set_symbol("__start_mcount_loc", value=elf.value("__start_mcount_loc") + 4)


def healthy(elf: ElfEdit) -> None:
    """One whole record later."""
    forget(elf, elf.record(elf.slots()[0]))
    elf.set_symbol("__start_mcount_loc", value=elf.value("__start_mcount_loc") + 8)


FIXTURE = Fixture(
    made(
        Spec(contract="stock"),
        broken,
    ),
    made(Spec(contract="stock"), healthy),
    contract="stock",
)
