"""PL407: a kernel that was linked with the marker, and whose ftrace.c knows nothing of it."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture
from tests.support.built import Mini


def broken(mini: Mini) -> Arguments:
    return [mini(Spec(ignores_marker=True))]


def healthy(mini: Mini) -> Arguments:
    return [mini(Spec())]


FIXTURE = Fixture(broken, healthy, symbol="ftrace_init")
