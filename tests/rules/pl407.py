"""PL407: a kernel that has the marker and reads it, and whose ftrace_init_nop writes the MOV all the same."""

from __future__ import annotations

from tests.mini_kernel.build import WRITES_ANYWAY, Spec
from tests.rules.fixture import Arguments, Fixture
from tests.support.built import Mini


def broken(mini: Mini) -> Arguments:
    return [mini(Spec(broken=WRITES_ANYWAY))]


def healthy(mini: Mini) -> Arguments:
    return [mini(Spec())]


FIXTURE = Fixture(broken, healthy, symbol="ftrace_init_nop")
