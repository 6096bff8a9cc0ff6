"""PL514: an ftrace_ops that is not on the list any more, and is still called."""

from __future__ import annotations

from tests.rules.fixture import AUDIT, Arguments, Fixture
from tests.rules.hooked import hooked
from tests.support.built import Mini


def broken(mini: Mini) -> Arguments:
    return hooked(mini, {"hook+16": 1 << 12})  # FTRACE_OPS_FL_ENABLED is gone


def healthy(mini: Mini) -> Arguments:
    return hooked(mini, {})


FIXTURE = Fixture(broken, healthy, symbol="vfs_read", command=AUDIT)
