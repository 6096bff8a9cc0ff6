"""PL111: a second section of the records' name."""

from __future__ import annotations

import struct

from prologue.kernel.module_loader import RECORDS
from tests.mutation.mutation import Mutation
from tests.mutation.world import World


def mutate(world: World) -> set[int]:
    image = world.original.image
    mine = world.section(RECORDS)
    relocated = {s.info for s in image.sections if s.type == "SHT_RELA"}  # its relocations need not fit records
    others = [s for s in image.sections if s.allocated and s.has_bytes and not s.size % 8 and not s.is_text]
    other = world.seed.choice([s for s in others if s.index not in relocated])
    headers = int(struct.unpack_from("<Q", world.memory, 40)[0])
    name = struct.unpack_from("<I", world.memory, headers + 64 * mine.index)[0]
    world.write(headers + 64 * other.index, struct.pack("<I", name))
    return {mine.addr, other.addr}


MUTATION = Mutation(("module", "module 4,2"), mutate)
