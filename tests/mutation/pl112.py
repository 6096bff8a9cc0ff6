"""PL112: a table that ends too early, or that a module does not have any more."""

from __future__ import annotations

import struct

from tests.mutation.mutation import BOTH, Mutation
from tests.mutation.world import World

_SH_NAME = 0


def _cut(world: World) -> set[int]:
    """At most nine tenths of the records are left, or none."""
    start, stop = "__start_mcount_loc", "__stop_mcount_loc"
    low, high = (world.value(world.rows_of(name)[0]) for name in (start, stop))
    row = next(r for r in world.rows_of(stop) if world.name(r) == stop)
    count = (high - low) // 8
    zeros = int((~world.records.nonzero).sum())  # sorted first: they are no functions
    left = world.seed.choice((0, zeros + world.seed.randrange((count - zeros) * 9 // 10)))
    world.set_symbol(row, value=low + 8 * left)
    return set(world.sites.first.tolist())


def _dropped(world: World) -> set[int]:
    """The section of records, by another name."""
    section = world.section("__patchable_function_entries")
    start = struct.unpack_from("<Q", world.memory, 0x28)[0]
    world.write(start + 64 * section.index + _SH_NAME, struct.pack("<I", 0))
    return set(world.sites.first.tolist())


MUTATIONS = (
    Mutation(BOTH, _cut, name="a cut table"),
    Mutation(("module", "module 4,2"), _dropped, name="a dropped section"),
)
