"""PL509: an ftrace_ops whose callback is in a page of data."""

from __future__ import annotations

from tests.rules.fixture import AUDIT, Arguments, Fixture
from tests.rules.hooked import hooked
from tests.support.built import Mini


def broken(mini: Mini) -> Arguments:
    return hooked(mini, {"hook": 0xFFFF_8000_0900_0000})


def healthy(mini: Mini) -> Arguments:
    return hooked(mini, {})


FIXTURE = Fixture(broken, healthy, symbol="vfs_read", command=AUDIT)
