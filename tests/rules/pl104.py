"""PL104: a slot that says something else than its addend."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture, process
from tests.support.built import Mini
from tests.support.elf_edit import edit


def broken(mini: Mini) -> Arguments:
    with edit(mini(Spec(form="rela-applied"))) as elf:
        slot = elf.live_slots()[3]
        elf.set_quad(slot, elf.record(slot) + 64)
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    """Processing moves both."""
    return [process(mini(Spec(form="rela-applied")))]


FIXTURE = Fixture(broken, healthy)
