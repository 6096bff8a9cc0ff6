"""PL402: a marker that disagrees."""

from __future__ import annotations

import struct

from prologue.kernel.marker import BUILT
from tests.mutation.contract2 import plant_marker, process
from tests.mutation.mutation import BOTH, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    """Give the kernel a marker where some other object was."""
    count = world.seed.choice((0, len(world.sites), world.seed.randrange(100)))
    return plant_marker(world, struct.pack("<8sIIQ", b"PROLOGUE", 1, 1, count))


def count_sites(world: World) -> int:
    """Version 2: another number of sites than the table has."""
    marker = process(world).marker
    assert marker is not None
    other = world.seed.choice((0, marker.sites - 1, marker.sites + 1, world.seed.randrange(1 << 20)))
    world.write(marker.offset + 16, struct.pack("<Q", other))
    return marker.vaddr


def clear_flag(world: World) -> int:
    """Version 2: processed, and the marker says that it is not."""
    marker = process(world).marker
    assert marker is not None
    world.write(marker.offset + 12, struct.pack("<I", marker.flags & ~BUILT))
    return marker.vaddr


MUTATIONS = (
    Mutation(BOTH, mutate),
    Mutation(BOTH, count_sites, name="count, version 2"),
    Mutation(BOTH, clear_flag, name="flag, version 2"),
)
