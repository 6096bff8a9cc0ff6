"""PL511: an executable page of an area without an owner."""

from __future__ import annotations

from tests.rules.fixture import AUDIT, Arguments, Fixture
from tests.rules.hooked import hooked
from tests.support.built import Mini


def broken(mini: Mini) -> Arguments:
    return hooked(mini, {}, ("module_text", "orphan_text"))


def healthy(mini: Mini) -> Arguments:
    return hooked(mini, {}, ("module_text",))


FIXTURE = Fixture(broken, healthy, symbol="orphan_text", command=AUDIT)
