"""PL406: a processed module has the build ID of the unprocessed one."""

from __future__ import annotations

from tests.mini_module.build import ModuleSpec
from tests.rules.fixture import Arguments, Fixture, copy_before, process
from tests.support.built import Mini


def broken(mini: Mini) -> Arguments:
    module = mini(ModuleSpec())
    before = copy_before(module)
    return [process(module, contract="native"), "--against", before]


def healthy(mini: Mini) -> Arguments:
    """The file itself."""
    module = mini(ModuleSpec())
    return [module, "--against", copy_before(module)]


FIXTURE = Fixture(broken, healthy)
