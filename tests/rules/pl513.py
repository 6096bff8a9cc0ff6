"""PL513: a jump label becomes a MOV, off the list, before any CPU has executed it."""

from __future__ import annotations

from prologue.insn import a64
from tests.rules.fixture import Arguments, Fixture
from tests.rules.recorded import JUDGE, recorded
from tests.support.built import Mini


def broken(mini: Mini) -> Arguments:
    return recorded(mini, new=a64.MOV_X9_X30, flags=0)


def healthy(mini: Mini) -> Arguments:
    return recorded(mini, flags=0)


FIXTURE = Fixture(broken, healthy, symbol="vfs_read", command=JUDGE)
