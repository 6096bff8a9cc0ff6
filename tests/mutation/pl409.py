"""PL409: relocations of other things than records."""

from __future__ import annotations

import struct

import numpy as np

from prologue.elf.dynrelocs import RELA, relr_section
from tests.mutation.contract2 import process
from tests.mutation.mutation import BOTH, NONE, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    """An entry of RELA changed, or a bit of RELR."""
    kernel = process(world)
    relr = relr_section(kernel.image)
    if relr is not None:
        words = kernel.image.view(relr, "<u8")
        maps = np.flatnonzero(words & np.uint64(1) == 1)
        k = world.pick(maps)
        world.write(relr.offset + 8 * k, struct.pack("<Q", int(words[k]) ^ 2 << world.seed.randrange(63)))
        return NONE
    section = world.section(".rela.dyn")
    k = world.pick(np.flatnonzero(kernel.image.view(section, RELA)["info"] != 0))
    at = section.offset + RELA.itemsize * k + world.seed.choice((0, 16))
    world.write(at, struct.pack("<Q", struct.unpack_from("<Q", world.memory, at)[0] + 8))
    return NONE


MUTATION = Mutation(BOTH, mutate)
