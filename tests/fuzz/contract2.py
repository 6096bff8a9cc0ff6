"""Kernels with version 2 of the marker, linked, processed and half written, and the journal of the last one."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from prologue.kernel.kernel import Kernel
from prologue.patching.journal import journal_of, write_journal
from prologue.plan.build import build_plan
from tests.mini_kernel.build import Spec
from tests.support.built import built


class Half(NamedTuple):
    """A file in the midst of being written, and its journal."""

    kernel: bytes
    journal: bytes


def processed(form: str) -> bytes:
    """Make what the build step makes."""
    content = bytearray(_linked(form).read_bytes())
    for stage in build_plan(Kernel(_linked(form)), "native").stages:
        for offset, new in zip(stage.offsets.tolist(), stage.new.tolist(), strict=True):
            content[offset : offset + stage.width] = new.to_bytes(stage.width, "little")
    return bytes(content)


def half_written(form: str, directory: Path) -> Half:
    """Make what a killed run leaves: everything up to the relocations."""
    path = directory / "half"
    content = bytearray(_linked(form).read_bytes())
    path.write_bytes(content)
    plan = build_plan(Kernel(path), "native")
    assert plan.guard is not None
    write_journal(path, plan)
    last = plan.stages[-1]
    state = int(last.offsets[0])
    content[state : state + 8] = plan.guard.to_bytes(8, "little")
    for stage in plan.stages[:2]:
        for offset, new in zip(stage.offsets.tolist(), stage.new.tolist(), strict=True):
            content[offset : offset + stage.width] = new.to_bytes(stage.width, "little")
    return Half(bytes(content), journal_of(path).read_bytes())


def _linked(form: str) -> Path:
    return built(Spec(marker=2, form=form, zeros=True))  # type: ignore[arg-type]  # one of the literals
