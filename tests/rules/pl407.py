"""PL407: a kernel that was linked with the marker, and whose ftrace.c knows nothing of it."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, made

FIXTURE = Fixture(made(Spec(ignores_marker=True)), made(Spec()), symbol="ftrace_init")
