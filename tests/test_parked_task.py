"""A task that is parked between its two slots, on purpose: what it meets there when the other one has been written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.mini_kernel.build import Spec
from tests.mini_kernel.run import MiniRun, run
from tests.support.cases import one_quick
from tests.support.needs import needs_common_tools

pytestmark = pytest.mark.qemu
Mini = Callable[[Spec], Path]
SWINGS = 2_000
FORMS = [
    Spec(parked=SWINGS), Spec(parked=SWINGS, layout="4,2", bti=True),
    Spec(parked=SWINGS, layout="4,2", compiler="clang", form="relr", contract="stock"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _qemu() -> None:
    needs_common_tools("qemu-system-aarch64")


def parked_swings(boot: MiniRun) -> tuple[str, ...]:
    """How often it was swung while parked, how often it was parked, and how often the BL was executed."""
    return tuple(boot.values[name] for name in ("parked_swings", "preemptions", "traced"))


@pytest.mark.parametrize("spec", FORMS, ids=str)
def test_mov_written_live_loses_the_return_address(mini: Mini, spec: Spec) -> None:
    """MOV, then BL are written live. Between calls nothing is noticed; the first parked task loses its way back."""
    vmlinux = mini(spec)
    out = vmlinux.with_name("nop-nop")
    assert main(["variant", str(vmlinux), "--kind", "nop-nop", "-o", str(out)]) == 0
    boot = run(out)
    assert boot.values["writes"] == "0"
    begun, parked, lost, count, verdict = boot.lines[2:]
    assert begun == "slots_written=2 preempted=0: 1000 swings"
    assert parked == f"slots_written=2 preempted=1: {SWINGS} swings"
    assert lost.startswith("bad x9=0xdead at=")  # what the caller had in it: no first slot was executed as MOV
    assert count == "calls=1001 bad_x9=1"  # a thousand good ones, each of a swing between calls
    assert verdict == "FAIL a second slot was called before its first slot had saved LR"


@pytest.mark.parametrize("spec", one_quick(*FORMS), ids=str)
def test_with_the_mov_in_place_it_returns(mini: Mini, spec: Spec) -> None:
    vmlinux = mini(spec)
    for command in (None, ["patch", str(vmlinux), "--in-place", "--contract", spec.contract, "--no-reread"]):
        assert command is None or main(command) == 0
        boot = run(vmlinux)
        assert boot.passed, boot.lines
        assert f"slots_written=1 preempted=1: {SWINGS} swings" in boot.lines
        assert boot.values["writes"] == ("16" if command is None else "0")
        assert parked_swings(boot) == (str(SWINGS), str(2 * SWINGS), str(SWINGS + 1000))
        assert boot.values["bad_x9"] == "0"


@pytest.mark.kernel  # no kernel is needed, but about a minute
@pytest.mark.extended
def test_a_million_swings(mini: Mini) -> None:
    vmlinux = mini(Spec(parked=1_000_000))
    assert main(["patch", str(vmlinux), "--in-place", "--no-reread"]) == 0
    boot = run(vmlinux, timeout=800)
    assert boot.passed, boot.lines
    assert parked_swings(boot) == ("1000000", "2000000", "1001000")
    assert boot.values["bad_x9"] == "0"
