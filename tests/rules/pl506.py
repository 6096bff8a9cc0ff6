"""PL506: a jump label that is switched without IC IVAU."""

from __future__ import annotations

from tests.rules.fixture import Arguments, Fixture
from tests.rules.recorded import JUDGE, recorded
from tests.support.built import Mini


def broken(mini: Mini) -> Arguments:
    return recorded(mini, maintenance=0x6221)


def healthy(mini: Mini) -> Arguments:
    return recorded(mini)


FIXTURE = Fixture(broken, healthy, symbol="vfs_read", command=JUDGE)
