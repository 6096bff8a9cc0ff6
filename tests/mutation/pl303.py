"""PL303: a pointer, or instructions that form one, to a second slot."""

from __future__ import annotations

import struct

import numpy as np

from prologue.insn import a64
from prologue.sites.module import Module
from prologue.sites.tables import relative_pointers
from tests.mutation.mutation import ALL, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    target = int(world.sites.second[world.site()])
    pointers = world.original.pointers
    if not world.is_kernel or world.seed.random() < 0.5:
        own = np.isin(pointers.places, world.records.vaddrs)
        places = pointers.places[~own]
        if isinstance(world.original, Module):
            return _pointer_in_module(world)
        place = world.pick(places)
        world.write(world.pointer_at(place), struct.pack("<Q", target))
        return place
    if world.seed.random() < 0.3:
        place = world.pick(relative_pointers(world.original).places)
        world.write(world.offset(place), struct.pack("<i", target - place))
        return place
    register = world.seed.randrange(28)
    if world.seed.random() < 0.3:
        near = world.code[(world.code > target - (1 << 19)) & (world.code < target + (1 << 19))]
        place = world.pick(near)
        distance = target - place
        world.set_word(place, 0x10000000 | (distance & 3) << 29 | (distance >> 2 & 0x7FFFF) << 5 | register)
        return place
    while True:
        place = world.pick(world.code)
        between = world.seed.randrange(3)
        last = place + 4 * (1 + between)
        if np.isin(np.arange(place, last + 4, 4, dtype=np.uint64), world.code).all():
            break
    pages = (target >> 12) - (place >> 12)
    world.set_word(place, 0x90000000 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5 | register)
    for k in range(between):
        world.set_word(place + 4 * (k + 1), a64.NOP)
    rest = 0
    if world.seed.random() < 0.5 and np.uint64(last + 4) in world.code and target & 0xFFF >= 8:
        rest = 4  # a base, and an ADD that goes on from it
        world.set_word(last + 4, 0x91000000 | rest << 10 | register << 5 | world.seed.randrange(30))
    to = register if rest else world.seed.randrange(30)
    world.set_word(last, 0x91000000 | ((target & 0xFFF) - rest) << 10 | register << 5 | to)
    return last + rest


def _pointer_in_module(world: World) -> int:
    """A relocation of this module whose addend leads to a second slot of the section that it refers to."""
    assert isinstance(world.original, Module)
    relocations = world.original.relocations
    while True:
        k = world.seed.randrange(len(relocations))
        place, target = int(relocations.places[k]), int(relocations.targets[k])
        if int(relocations.types[k]) not in (257, 261) or place in world.records.vaddrs:
            continue
        section = world.original.image.section_at(target) if relocations.defined[k] else None
        inside = [] if section is None else [int(s) for s in world.sites.second if int(s) in section]
        if inside:
            home = int(relocations.homes[k])
            (addend,) = struct.unpack_from("<q", world.memory, home)
            world.write(home, struct.pack("<q", addend + world.seed.choice(inside) - target))
            return place


MUTATION = Mutation(ALL, mutate)
