"""PL402: a marker that says that an unprocessed file is processed."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, made
from tests.support.elf_edit import ElfEdit


def broken(elf: ElfEdit) -> None:
    marker = elf.value("__ftrace_prologue_marker")
    elf.set_quad(marker + 8, 1 | 1 << 32)
    elf.set_quad(marker + 16, len(elf.live_slots()))


FIXTURE = Fixture(made(Spec(), broken), made(Spec(), processed=True))
