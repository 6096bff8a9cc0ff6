"""PL408: a bench variant whose prologues are never written."""

from __future__ import annotations

from prologue.cli.main import main
from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture
from tests.support.built import Mini


def _variant(mini: Mini, kind: str) -> Arguments:
    vmlinux = mini(Spec())
    out = vmlinux.with_name(kind)
    assert main(["variant", str(vmlinux), "--kind", kind, "-o", str(out)]) == 0
    return [out]


def broken(mini: Mini) -> Arguments:
    return _variant(mini, "nop-nop")


def healthy(mini: Mini) -> Arguments:
    return _variant(mini, "build")


FIXTURE = Fixture(broken, healthy, symbol="ftrace_init")
