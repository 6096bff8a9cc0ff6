"""PL507: the same write, by a function that is no part of jump labels."""

from __future__ import annotations

from tests.rules.fixture import Arguments, Fixture
from tests.rules.recorded import CALLERS, FUNCTIONS, JUDGE, recorded
from tests.support.built import Mini


def broken(mini: Mini) -> Arguments:
    functions = tuple(f._replace(name="hook_it") if f.start == CALLERS[2] & ~0xFFF else f for f in FUNCTIONS)
    return recorded(mini, functions=functions)


def healthy(mini: Mini) -> Arguments:
    return recorded(mini)


FIXTURE = Fixture(broken, healthy, symbol="vfs_read", command=JUDGE)
