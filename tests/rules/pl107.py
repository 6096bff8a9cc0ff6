"""PL107: two records exchanged in a table that the build has sorted."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture
from tests.support.built import Mini
from tests.support.elf_edit import edit


def broken(mini: Mini) -> Arguments:
    with edit(mini(Spec(zeros=True))) as elf:
        one, other = elf.live_slots()[4:6]
        first, second = elf.record(one), elf.record(other)
        elf.set_record(one, second)
        elf.set_record(other, first)
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    return [mini(Spec(zeros=True))]


FIXTURE = Fixture(broken, healthy)
