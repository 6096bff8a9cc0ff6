"""Which words of ftrace's may differ from the file in each state of a boot."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue_bench.guest.vm import GuestRun, Machine
from tests.kernels.boots import Audited, Booted
from tests.kernels.files import Form
from tests.kernels.judge import _written

N = 15000


@pytest.mark.parametrize(
    ("processed", "state", "words", "wrong"),
    [
        (True, "untraced", (0, 0, 0), 0),
        (True, "untraced", (1, 0, 0), 1),
        (True, "untraced", (0, 1, 0), 1),
        (True, "untraced", (0, 0, 2), 1),
        (False, "untraced", (N, 0, 0), 0),
        (False, "untraced", (0, 0, 0), 1),  # it writes the MOVs at boot
        (False, "untraced", (N, 0, 2 * N), 1),  # but no literal
        (True, "idle", (0, 0, 2 * N), 0),
        (True, "idle", (0, N, 2 * N), 1),
        (True, "idle", (0, 0, 0), 1),  # it was traced: its literals are set
        (True, "function", (1, N, 2 * N), 0),  # a probe is on a first slot
        (True, "function", (N, N, 2 * N), 1),
        (True, "function", (0, 0, 2 * N), 1),
        (True, "from the start", (0, N, 2 * N), 0),
        (True, "livepatch", (0, 1, 2 * N), 0),
        (False, "after", (N, 0, 2 * N), 0),
    ],
)
def test_words(tmp_path: Path, state: str, words: tuple[int, int, int], wrong: int, *, processed: bool) -> None:
    changed = dict(zip(("first slots", "second slots", "CALL_OPS literals"), words, strict=True))
    form = Form(processed=processed, directory=tmp_path, vmlinux=tmp_path / "vmlinux", modules=())
    run = GuestRun(events=(), command="", log=tmp_path / "log", seconds=1.0)
    audit = Audited(state, (), 10 * N, changed, {})
    booted = Booted(form=form, machine=Machine(), run=run, audits=(audit,))
    assert len(list(_written(booted, audit))) == wrong


def test_layout_2_has_no_literals(tmp_path: Path) -> None:
    form = Form(processed=True, directory=tmp_path, vmlinux=tmp_path / "vmlinux", modules=())
    run = GuestRun(events=(), command="", log=tmp_path / "log", seconds=1.0)
    audit = Audited("idle", (), 10 * N, {"first slots": 0, "second slots": 0}, {})
    assert list(_written(Booted(form=form, machine=Machine(), run=run, audits=(audit,)), audit)) == []
