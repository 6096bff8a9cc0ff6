"""PL402: a marker that says that an unprocessed file is processed."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture, process
from tests.support.built import Mini
from tests.support.elf_edit import edit


def broken(mini: Mini) -> Arguments:
    with edit(mini(Spec())) as elf:
        marker = elf.value("__ftrace_prologue_marker")
        elf.set_quad(marker + 8, 1 | 1 << 32)
        elf.set_quad(marker + 16, len(elf.live_slots()))
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    return [process(mini(Spec()))]


FIXTURE = Fixture(broken, healthy)
