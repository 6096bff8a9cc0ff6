"""Words that an audit of a boot left undecided: never called clean, and always a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue_bench.guest.vm import GuestRun, Machine
from tests.kernels.boots import STATES, Audited, Booted, audited
from tests.kernels.files import Form
from tests.kernels.judge import _audits
from tests.kernels.recipes import KERNELS
from tests.kernels.table import Seen, row
from tests.mini_kernel.build import Spec
from tests.rules.fixture import as_running, process
from tests.support.built import Mini
from tests.support.needs import needs_tools


def booted(unsure: dict[str, int], directory: Path) -> Booted:
    audits = tuple(
        Audited(state, (), 9000, {"second slots": 2000 * state.startswith("function")}, unsure) for state in STATES
    )
    form = Form(processed=True, directory=directory, vmlinux=directory / "vmlinux", modules=())
    run = GuestRun(events=(), command="", log=directory / "log", seconds=1.0)
    return Booted(form=form, machine=Machine(), run=run, audits=audits, toggles=20, tests_at_boot=True)


def test_they_are_counted_by_mechanism(mini: Mini) -> None:
    """Of the mini kernel nothing says which second slots are traced."""
    vmlinux, source = map(Path, as_running(process(mini(Spec(form="relr"))), {}))
    said = audited(vmlinux, source, "idle")
    assert (said.problems, said.unsure) == ((), {"second slots": 15})


@pytest.mark.parametrize(
    ("unsure", "failures"),
    [({}, 0), ({"runtime constants": 64}, len(STATES)), ({"CALL_OPS literals": 2}, len(STATES))],
)
def test_none_may_be_left(tmp_path: Path, unsure: dict[str, int], failures: int) -> None:
    problems = list(_audits(booted(unsure, tmp_path)))
    assert len(problems) == failures
    assert all("not decided" in line for line in problems)


def test_what_the_table_says(tmp_path: Path) -> None:
    needs_tools("aarch64-linux-gnu-gcc")
    kernel = next(one for one in KERNELS.values() if one.recipe.toolchain == "gcc")
    cells = row(Seen(kernel, None, {}, (booted({}, tmp_path),), {}))
    assert cells["audit"] == "4 clean, up to 2,000 words changed"
