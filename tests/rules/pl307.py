"""PL307: a module that was not linked with the script that gives it a trampoline."""

from __future__ import annotations

from tests.mini_module.build import ModuleSpec
from tests.rules.fixture import Fixture, made

FIXTURE = Fixture(made(ModuleSpec(linked=False)), made(ModuleSpec()), symbol="module_leaf")
