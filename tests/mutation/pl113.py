"""PL113: a relocation that writes offsets."""

from __future__ import annotations

import struct

import numpy as np

from prologue.elf.dynrelocs import RELA, relr_section
from tests.mutation.contract2 import process
from tests.mutation.mutation import BOTH, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    """An entry of RELA that is led there, or a filler of RELR that becomes an address."""
    kernel = process(world)
    assert kernel.bounds is not None
    place = kernel.bounds.start + 8 * world.seed.randrange((kernel.bounds.stop - kernel.bounds.start) // 8)
    relr = relr_section(kernel.image)
    if relr is not None:
        fillers = np.flatnonzero(kernel.image.view(relr, "<u8") == 1)
        world.write(relr.offset + 8 * world.pick(fillers), struct.pack("<Q", place))
        return place
    section = world.section(".rela.dyn")
    used = np.flatnonzero(kernel.image.view(section, RELA)["info"] != 0)
    place -= world.seed.randrange(8)
    world.write(section.offset + RELA.itemsize * world.pick(used), struct.pack("<Q", place))
    return place


MUTATION = Mutation(BOTH, mutate)
