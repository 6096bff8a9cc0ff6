"""Version 2 of the marker on random RELA tables and orders of records: decoded, before is after and what was taken."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prologue.errors import RefusedError
from prologue.kernel.kernel import Kernel
from prologue.kernel.linked import as_linked
from prologue.kernel.relocating import relocations_outside
from prologue.plan.build import build_plan
from prologue.plan.edits import PatchPlan
from tests.mini_kernel.build import Spec
from tests.support.built import built
from tests.support.elf_edit import ElfEdit
from tests.support.needs import needs_mini_kernel_tools


def shaken(path: Path, seed: int, *, entries: int, values: bool, slots: bool) -> Path:
    """Exchange so many pairs of entries of .rela.dyn; let records have another order; fill slots in."""
    chance = random.Random(seed)  # noqa: S311 - not a secret
    elf = ElfEdit(built(Spec(marker=2, zeros=seed % 2 == 0)))
    table = elf.elf.get_section_by_name(".rela.dyn")
    places = range(table["sh_offset"], table["sh_offset"] + table["sh_size"], 24)
    for _ in range(entries):
        one, two = chance.choice(places), chance.choice(places)
        elf.data[one : one + 24], elf.data[two : two + 24] = elf.data[two : two + 24], elf.data[one : one + 24]
    live = elf.live_slots()
    held = [elf.record(slot) for slot in live]
    if values:
        chance.shuffle(held)
        for slot, value in zip(live, held, strict=True):
            elf.set_record(slot, value)
    if slots:
        for slot in live[:: chance.randrange(1, 3)]:
            elf.set_quad(slot, elf.record(slot))
    return elf.save(path)


def written(kernel: Kernel, plan: PatchPlan, path: Path) -> Kernel:
    content = bytearray(kernel.image.content)
    for stage in plan.stages:
        for offset, old, new in zip(stage.offsets.tolist(), stage.old.tolist(), stage.new.tolist(), strict=True):
            assert int.from_bytes(content[offset : offset + stage.width], "little") == old
            content[offset : offset + stage.width] = new.to_bytes(stage.width, "little")
    path.write_bytes(content)
    return Kernel(path)


@pytest.mark.thorough
@given(st.integers(0, 1 << 30), st.integers(0, 6), st.booleans(), st.booleans())
@settings(max_examples=25, deadline=None)
def test_nothing_else_is_lost_and_it_goes_back(
    tmp_path_factory: pytest.TempPathFactory, seed: int, entries: int, values: bool, slots: bool
) -> None:
    needs_mini_kernel_tools()
    directory = tmp_path_factory.mktemp("shaken")
    linked = Kernel(shaken(directory / "linked", seed, entries=entries, values=values, slots=slots))
    plan = build_plan(linked, "native")
    processed = written(linked, plan, directory / "processed")
    assert processed.state == "processed"
    bounds, marker = linked.bounds, processed.marker
    assert bounds is not None
    assert marker is not None
    table = range(bounds.start, bounds.stop)
    before = relocations_outside(linked.image, table)
    assert np.array_equal(before, relocations_outside(processed.image, table))
    assert len(relocations_outside(processed.image, range(0))) == len(before)  # none is left in the table
    assert linked.sites is not None
    assert processed.sites is not None
    assert processed.sites.second.tolist() == sorted(linked.sites.second.tolist())
    if not marker.extent:
        with pytest.raises(RefusedError, match="give the plan"):
            as_linked(processed)
        assert entries or slots
    else:
        assert bytes(as_linked(processed).image.content) == bytes(linked.image.content)
    undone = written(processed, plan.inverse(), directory / "undone")
    assert bytes(undone.image.content) == bytes(linked.image.content)
