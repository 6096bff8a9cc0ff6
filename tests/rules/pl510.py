"""PL510: a module that took itself off the list of modules."""

from __future__ import annotations

from pathlib import Path

from tests.rules.fixture import AUDIT, Arguments, Fixture
from tests.rules.hooked import hooked
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit


def broken(mini: Mini) -> Arguments:
    """Its text is executable no more, so that there is nothing else to report."""
    vmlinux, _ = hooked(mini, {})
    modules = ElfEdit(Path(vmlinux)).value("modules")
    return hooked(mini, {"modules": modules, "modules+8": modules}, ())


def healthy(mini: Mini) -> Arguments:
    return hooked(mini, {}, ())


FIXTURE = Fixture(broken, healthy, symbol="module_text", command=AUDIT)
