"""PL114: zeros in the middle of RELA, or other things at its end."""

from __future__ import annotations

import struct

import numpy as np

from prologue.elf.dynrelocs import R_AARCH64_RELATIVE, RELA
from tests.mutation.contract2 import process
from tests.mutation.mutation import Mutation
from tests.mutation.world import World


def zeros(world: World) -> int:
    """One entry of many: the next one is lost."""
    kernel = process(world)
    section = world.section(".rela.dyn")
    used = np.flatnonzero(kernel.image.view(section, RELA)["info"] == R_AARCH64_RELATIVE)
    k = world.pick(used[:-1])
    world.write(section.offset + RELA.itemsize * k, bytes(RELA.itemsize))
    return section.addr + RELA.itemsize * (k + 1)


def leftovers(world: World) -> int:
    """Relocations among the zeros."""
    kernel = process(world)
    section = world.section(".rela.dyn")
    free = np.flatnonzero(kernel.image.view(section, RELA)["info"] == 0)
    k = world.pick(free[1:])
    place = world.section(".data").addr
    world.write(section.offset + RELA.itemsize * k, struct.pack("<QQQ", place, 0x403, place))
    return section.addr + RELA.itemsize * k


MUTATIONS = (Mutation(("6.1",), zeros, name="zeros"), Mutation(("6.1",), leftovers, name="leftovers"))
