"""PL512: an entry of an operations table that leads elsewhere."""

from __future__ import annotations

from tests.rules.fixture import AUDIT, Arguments, Fixture
from tests.rules.hooked import hooked
from tests.support.built import Mini


def broken(mini: Mini) -> Arguments:
    return hooked(mini, {"operations+8": 0xFFFF_8000_0900_0000})


def healthy(mini: Mini) -> Arguments:
    """What is read-only after init may be another function of the kernel's."""
    return hooked(mini, {"chosen": 0xFFFF_8000_0800_1000})


FIXTURE = Fixture(broken, healthy, symbol="operations", command=AUDIT)
