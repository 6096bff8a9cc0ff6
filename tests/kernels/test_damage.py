"""Damage of kernels: ``verify`` refuses each kind, and what a damaged kernel has to say when it boots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prologue_bench.guest.vm import GuestRun, Machine
from prologue_bench.host.events import Event
from tests.kernels.boots import Audited, Booted
from tests.kernels.damage import DAMAGES, Damage, damaged, damages_of
from tests.kernels.files import Form, refused
from tests.kernels.judge import damage_problems
from tests.mini_kernel.build import Spec
from tests.rules.fixture import process
from tests.support.built import Mini

OFFSETS = Spec("4,2", marker=2)
PLAIN = Spec("2", marker=2, plain=True)


def processed(mini: Mini, spec: Spec) -> Form:
    vmlinux = process(mini(spec))
    return Form(processed=True, directory=vmlinux.parent, vmlinux=vmlinux, modules=())


@pytest.mark.thorough
@pytest.mark.parametrize("spec", [OFFSETS, PLAIN], ids=str)
def test_verify_refuses_each_kind(mini: Mini, spec: Spec, tmp_path: Path) -> None:
    form = processed(mini, spec)
    assert not refused(form)
    before = form.vmlinux.read_bytes()
    for damage in damages_of(form):
        broken = damaged(form, damage, tmp_path / damage.name)
        assert broken.vmlinux.read_bytes() != before, damage.name
        assert refused(broken), damage.name
        assert broken.image.exists()
    assert form.vmlinux.read_bytes() == before


def test_a_table_of_addresses_has_no_damage_of_offsets(mini: Mini) -> None:
    assert damages_of(processed(mini, OFFSETS)) == DAMAGES
    assert {damage.of_table for damage in damages_of(processed(mini, PLAIN))} == {False}


SEEN = Damage("seen", lambda _: [], "no NOP at")
OVERWRITES = Damage("overwrites", lambda _: [], "no NOP at", second_slots=1)
UNSEEN = Damage("unseen", lambda _: [], "")
HEALTHY = {"on": -1, "alive": True, "message": "ftrace: no NOP at vfs_read+0x8", "bugs": 1}


@pytest.mark.parametrize(
    ("damage", "event", "written", "wrong"),
    [
        (SEEN, {}, 0, 0),
        (SEEN, {"message": ""}, 0, 1),
        (SEEN, {"message": "ftrace: no text at x"}, 0, 1),
        (SEEN, {"bugs": 0}, 0, 1),
        (SEEN, {"alive": False}, 0, 1),
        (SEEN, {}, 7, 1),  # a BL before the damage was seen
        (SEEN, {}, -1, 1),  # the audit could not look
        (OVERWRITES, {}, 1, 0),
        (OVERWRITES, {}, 2, 1),
        (UNSEEN, {"message": "", "bugs": 0}, 9000, 0),
        (UNSEEN, {"message": "", "bugs": 0}, 0, 1),  # nothing was traced
        (UNSEEN, {}, 9000, 2),
    ],
)
def test_what_the_boot_has_to_show(
    tmp_path: Path, damage: Damage, event: dict[str, Any], written: int, wrong: int
) -> None:
    run = GuestRun(events=(Event("damaged", HEALTHY | event),), command="", log=tmp_path / "log", seconds=1.0)
    changed = {"second slots": written} if written >= 0 else {}
    audit = Audited("damaged", (), 9000, changed, {})
    form = Form(processed=True, directory=tmp_path, vmlinux=tmp_path / "vmlinux", modules=())
    booted = Booted(form=form, machine=Machine(), run=run, audits=(audit,), kind="damaged")
    assert len(list(damage_problems(booted, damage))) == wrong
