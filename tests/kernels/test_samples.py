"""A kernel that has a sample module must have used it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from prologue_bench.guest.vm import GuestRun, Machine
from prologue_bench.host.events import Event
from tests.kernels.boots import Booted
from tests.kernels.files import Form
from tests.kernels.judge import _direct, _livepatched

Judge = Callable[[Booted], Iterator[str]]


def booted(directory: Path, modules: tuple[str, ...], *events: Event) -> Booted:
    paths = tuple(directory / f"{name}.ko" for name in modules)
    form = Form(processed=True, directory=directory, vmlinux=directory / "vmlinux", modules=paths)
    run = GuestRun(events=events, command="", log=directory / "log", seconds=1.0)
    return Booted(form=form, machine=Machine(), run=run, audits=())


def direct(tracer: str, calls: int) -> Event:
    return Event("direct", {"tracer": tracer, "calls": calls})


def livepatch(tracer: str, patched: int) -> Event:
    return Event("livepatch", {"tracer": tracer, "patched": patched})


PATCHED = (livepatch("nop", 1), livepatch("function", 1), livepatch("unloaded", 0))


@pytest.mark.parametrize(
    ("judge", "module", "events", "wrong"),
    [
        (_direct, "ftrace-direct", (direct("nop", 3), direct("function", 5)), 0),
        (_direct, "ftrace-direct", (direct("nop", 3), direct("function", 0)), 1),
        (_direct, "ftrace-direct", (), 1),
        (_direct, "overlay", (), 0),
        (_livepatched, "livepatch-sample", PATCHED, 0),
        (_livepatched, "livepatch-sample", (*PATCHED[:1], livepatch("function", 0), *PATCHED[2:]), 1),
        (_livepatched, "livepatch-sample", (*PATCHED[:2], livepatch("unloaded", 1)), 1),
        (_livepatched, "livepatch-sample", (), 1),
        (_livepatched, "overlay", (), 0),
    ],
)
def test_samples(tmp_path: Path, judge: Judge, module: str, events: tuple[Event, ...], wrong: int) -> None:
    assert len(list(judge(booted(tmp_path, (module,), *events)))) == wrong
