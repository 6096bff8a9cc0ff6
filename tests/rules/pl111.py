"""PL111: a module whose linker left each function's record in a section of its own."""

from __future__ import annotations

from tests.mini_module.build import ModuleSpec
from tests.rules.fixture import Arguments, Fixture
from tests.support.built import Mini


def broken(mini: Mini) -> Arguments:
    return [mini(ModuleSpec(compiler="clang", merged=False))]


def healthy(mini: Mini) -> Arguments:
    return [mini(ModuleSpec(compiler="clang"))]


FIXTURE = Fixture(broken, healthy)
