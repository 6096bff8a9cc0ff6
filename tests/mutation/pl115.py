"""PL115: what says how to undo the processing."""

from __future__ import annotations

import struct

from tests.mutation.contract2 import process
from tests.mutation.mutation import BOTH, Mutation
from tests.mutation.world import World


def places(world: World) -> int:
    """One slot's record in the second half of the table."""
    kernel = process(world)
    assert kernel.marker is not None
    assert kernel.bounds is not None
    slots = (kernel.bounds.stop - kernel.bounds.start) // 8
    at = kernel.bounds.file_offset + 4 * (slots + world.seed.randrange(slots))
    word = struct.unpack_from("<I", world.memory, at)[0]
    world.write(at, struct.pack("<I", word + 1 + world.seed.randrange(slots)))
    return kernel.marker.vaddr


def taken(world: World) -> int:
    """Where relocations were taken out, and how many."""
    marker = process(world).marker
    assert marker is not None
    field, held = world.seed.choice(((28, marker.first), (32, marker.extent)))
    # One more than were taken out is PL114's: there is no room of zeros for it.
    other = held + world.seed.choice((1, -1, 1000) if field == 28 else (-1, -(held // 2)))
    world.write(marker.offset + field, struct.pack("<I", other))
    return marker.vaddr


MUTATIONS = (Mutation(BOTH, places, name="places"), Mutation(BOTH, taken, name="taken"))
