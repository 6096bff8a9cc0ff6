"""PL111: a module whose linker left each function's record in a section of its own."""

from __future__ import annotations

from tests.mini_module.build import ModuleSpec
from tests.rules.fixture import Fixture, made

FIXTURE = Fixture(made(ModuleSpec(compiler="clang", merged=False)), made(ModuleSpec(compiler="clang")))
