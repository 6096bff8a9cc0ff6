"""PL305: an entry of another patcher's table that names a site."""

from __future__ import annotations

import struct

import numpy as np

from prologue.sites import tables
from tests.mutation.mutation import BOTH, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    """Any of the other tables, aimed at a word of a site."""
    binary = world.original
    place = int(world.seed.choice((world.sites.first, world.sites.second))[world.site()])
    second = int(world.sites.second[world.site()])
    constants = [section for section in binary.image.sections if section.name.startswith("runtime_")]
    kinds = [
        "jump",
        "jump target",
        "alternative",
        "extable",
        "fixup",
        "bug",
        "blacklist",
        *["constant"] * bool(constants),
    ]
    kind = world.seed.choice(kinds)
    if kind == "blacklist":
        start = binary.symbols.find("__start_kprobe_blacklist")
        assert start is not None
        slot = start.vaddr + 8 * world.pick(np.flatnonzero(tables.kprobe_blacklist(binary)))
        world.write(world.pointer_at(slot), struct.pack("<Q", second))  # kernels with RELR have some in RELA
        return second
    if kind in ("jump", "jump target"):
        field = world.pick(tables.jump_labels(binary).entries) + (4 if kind == "jump target" else 0)
        place = second if kind == "jump target" else place
    elif kind == "alternative":
        section = world.section(".altinstructions")
        field = section.addr + 12 * world.seed.randrange(section.size // 12)
    elif kind == "constant":
        section = world.seed.choice(constants)
        field = section.addr + 4 * world.seed.randrange(section.size // 4)
        length = 4 if section.name.startswith("runtime_ptr_") else 1
        world.write(world.offset(field), struct.pack("<i", place - 4 * world.seed.randrange(length) - field))
        return place
    elif kind in ("extable", "fixup"):
        section = world.section("__ex_table")
        field = section.addr + 12 * world.seed.randrange(section.size // 12) + (4 if kind == "fixup" else 0)
    else:
        section = world.section("__bug_table")
        field = section.addr + 12 * world.seed.randrange(section.size // 12)
    world.write(world.offset(field), struct.pack("<i", place - field))
    return place


MUTATION = Mutation(BOTH, mutate)
