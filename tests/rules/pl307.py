"""PL307: a module that was not linked with the script that gives it a trampoline."""

from __future__ import annotations

from tests.mini_module.build import ModuleSpec
from tests.rules.fixture import Arguments, Fixture
from tests.support.built import Mini


def broken(mini: Mini) -> Arguments:
    return [mini(ModuleSpec(linked=False))]


def healthy(mini: Mini) -> Arguments:
    return [mini(ModuleSpec())]


FIXTURE = Fixture(broken, healthy, symbol="module_leaf")
