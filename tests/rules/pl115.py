"""PL115: what says which slot each record had names one of them twice."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture, process
from tests.support.built import Mini
from tests.support.elf_edit import edit


def broken(mini: Mini) -> Arguments:
    with edit(healthy_kernel := process(mini(Spec(marker=2, zeros=True)))) as elf:
        half = (elf.value("__start_mcount_loc") + elf.value("__stop_mcount_loc")) // 2
        elf.set_word(half + 20, elf.word(half + 24))
    return [healthy_kernel]


def healthy(mini: Mini) -> Arguments:
    return [process(mini(Spec(marker=2, zeros=True)))]


FIXTURE = Fixture(broken, healthy, symbol="__ftrace_prologue_marker")
