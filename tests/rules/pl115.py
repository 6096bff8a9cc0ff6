"""PL115: what says which slot each record had names one of them twice."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, made
from tests.support.elf_edit import ElfEdit

SPEC = Spec(marker=2, zeros=True)


def broken(elf: ElfEdit) -> None:
    half = (elf.value("__start_mcount_loc") + elf.value("__stop_mcount_loc")) // 2
    elf.set_word(half + 20, elf.word(half + 24))


FIXTURE = Fixture(made(SPEC, broken, processed=True), made(SPEC, processed=True), symbol="__ftrace_prologue_marker")
