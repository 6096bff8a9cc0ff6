"""PL203 where the MOV took the place of the landing pad: what is left looks like a pair without a pad."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from prologue.elf.symbols import STT_FUNC
from prologue.insn import a64
from prologue.rules.base import Subject, run_hits
from prologue.rules.registry import RULES
from prologue.rules.roots import trace_to_roots
from tests.mini_kernel.build import Contract, Spec
from tests.mini_module.build import ModuleSpec
from tests.mutation.world import World
from tests.rules.fixture import process
from tests.support.built import AnySpec

Mini = Callable[[AnySpec], Path]
KERNELS: list[AnySpec] = [
    Spec(layout=layout, bti=True, contract=contract) for layout in ("2", "4,2") for contract in ("native", "stock")
]
MODULES: list[AnySpec] = [ModuleSpec(layout=layout, bti=True) for layout in ("2", "4,2")]


def processed(mini: Mini, spec: AnySpec) -> World:
    contract: Contract = spec.contract if isinstance(spec, Spec) else "native"
    world = World(process(mini(spec), contract), random.Random(1))  # noqa: S311 - a test's choice
    assert causes(world) == []
    return world


def causes(world: World) -> list[tuple[str, int]]:
    """Code and address of every finding that follows from no other."""
    subject = Subject(world.open())
    hits, _ = trace_to_roots(subject, run_hits(subject, RULES))
    return [traced.key for traced in hits if not traced.follows_from]


@pytest.mark.parametrize("slot", [a64.NOP, a64.MOV_X9_X30], ids=["NOP", "MOV"])
@pytest.mark.parametrize("spec", [*KERNELS, *MODULES], ids=str)
def test_mov_over_the_pad_of_one_function(mini: Mini, spec: AnySpec, slot: int) -> None:
    """The first slot is as compiled, or has the MOV, too. The function is global: the link made hidden ones local."""
    world = processed(mini, spec)
    first = world.pick(world.sites.first[world.sites.bti])
    for row in world.rows_at(first - 4):
        if world.original.symbols.table["info"][row] == STT_FUNC:
            world.set_symbol(row, info=1 << 4 | STT_FUNC)
    world.set_word(first - 4, a64.MOV_X9_X30)
    world.set_word(first, slot)
    if slot == a64.NOP and (world.sites.layout == "2" or world.sites.moved.all()):
        # The record's own words say nothing then, or that it was moved.
        assert [code for code, _ in causes(world)] == ["PL110"]
    else:
        assert causes(world) == [("PL203", first - 4)]


def test_mov_over_all_pads(mini: Mini) -> None:
    """As a tool does that takes the place 8 bytes after each record for the first slot."""
    world = processed(mini, KERNELS[3])
    pads = world.sites.first[world.sites.bti] - np.uint64(4)
    for pad in pads.tolist():
        world.set_word(pad, a64.MOV_X9_X30)
        world.set_word(pad + 4, a64.NOP)
    assert causes(world) == [("PL203", pad) for pad in pads.tolist()]


@pytest.mark.parametrize("spec", [KERNELS[3], MODULES[1]], ids=str)
def test_a_body_that_begins_with_a_nop(mini: Mini, spec: AnySpec) -> None:
    """Compilers leave the pad out of local functions that are called by name only."""
    world = processed(mini, spec)
    second = world.pick(world.sites.second[~world.sites.bti])
    world.set_word(second + 4, a64.NOP)
    assert causes(world) == []
