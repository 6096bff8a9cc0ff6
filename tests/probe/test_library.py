"""``prologue.judge_probes``."""

from __future__ import annotations

from pathlib import Path

import pytest

import prologue
from tests.mini_module.build import ModuleSpec
from tests.probe import made_kernel
from tests.support.built import Mini


def test_places_are_names_or_addresses(vmlinux: Path) -> None:
    kernel = prologue.open(vmlinux)
    found = prologue.judge_probes(vmlinux, "traced+8", made_kernel.TEXT + 8, "twice")
    assert [verdict.where.vaddr for verdict in found[:2]] == [made_kernel.TEXT + 8] * 2
    assert len(found) == 4  # two functions of one name
    assert isinstance(kernel, prologue.Kernel)
    assert found == prologue.judge_probes(kernel, "traced+8", hex(made_kernel.TEXT + 8), "twice")[:1] + found[1:]
    assert [verdict.event for verdict in found] == [None] * 4
    assert prologue.judge_probes(kernel) == []


def test_events_are_made_if_they_are_asked_for(vmlinux: Path) -> None:
    able, unable = prologue.judge_probes(vmlinux, "traced", "traced+4", event=True)
    assert (able.event or "").startswith("p:traced traced")
    assert unable.event is None


@pytest.mark.parametrize("place", [-4, 1 << 64, made_kernel.TEXT + 1, "traced+", ""])
def test_what_is_no_place_is_a_usage_error(vmlinux: Path, place: int | str) -> None:
    with pytest.raises(prologue.UsageError):
        prologue.judge_probes(vmlinux, place)


def test_what_is_not_there_is_bad_input(vmlinux: Path, mini: Mini) -> None:
    with pytest.raises(prologue.InputError, match="no symbol nope"):
        prologue.judge_probes(vmlinux, "nope")
    with pytest.raises(prologue.InputError, match="is not code"):
        prologue.judge_probes(vmlinux, 0)
    with pytest.raises(prologue.InputError, match="is a module"):
        prologue.judge_probes(mini(ModuleSpec()), "init")
