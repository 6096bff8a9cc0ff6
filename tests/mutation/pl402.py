"""PL402: a marker that disagrees."""

from __future__ import annotations

import struct

import numpy as np

from tests.mutation.mutation import BOTH, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    """Give the kernel a marker where some other object was."""
    name = b"__ftrace_prologue_marker"
    section = world.section(".data")
    table = world.original.symbols.table
    inside = (table["value"] >= section.addr) & (table["value"] < section.addr + section.size)
    rows = np.flatnonzero(inside & (table["size"] >= 24) & (table["value"] % 8 == 0))
    # A string may name several symbols.
    names, uses = np.unique(table["name"], return_counts=True)
    rows = rows[np.isin(table["name"][rows], names[uses == 1])]
    row = next(r for r in world.seed.sample(rows.tolist(), len(rows)) if len(world.name(r)) > len(name))
    world.rename(row, name + b"\0")
    count = world.seed.choice((0, len(world.sites), world.seed.randrange(100)))
    world.write(world.offset(world.value(row)), struct.pack("<8sIIQ", b"PROLOGUE", 1, 1, count))
    return world.value(row)


MUTATION = Mutation(BOTH, mutate)
