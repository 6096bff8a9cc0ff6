"""PL304: a read of X9 right after the pair, or right after a call of a traced function."""

from __future__ import annotations

import numpy as np

from prologue.arrays import U64
from prologue.insn import a64
from tests.mutation.mutation import ALL, Mutation
from tests.mutation.world import World

READS_X9 = (0x8B090000, 0xF9400120, 0xF9000009, 0xF90003E9, 0xA90127E8, 0xEB00013F, 0xB4000049, 0xD61F0120, 0x9B097C00)


def _at_entry(world: World) -> int:
    while True:
        site = world.site()
        place = int(world.sites.second[site]) + 4
        if place in world.code:
            break
    world.set_word(place, world.seed.choice(READS_X9))
    return int(world.sites.first[site])


def _after_call(world: World) -> int:
    calls = _calls(world)
    if not len(calls):  # a small module
        return _at_entry(world)
    place = world.pick(calls)
    world.set_word(place + 4, world.seed.choice(READS_X9))
    return place


def _calls(world: World) -> U64:
    """Calls of traced functions that have a RET, and after which there is room for a word."""
    binary = world.original
    found = []
    for section in binary.image.text_sections:
        index, target = binary.branches(section)
        is_call = binary.image.view(section, "<u4")[index] >> np.uint32(26) == 0x25
        traced = is_call & np.isin(target, world.sites.entry)
        index, target = index[traced], target[traced]
        vaddrs = np.uint64(section.addr) + index.astype(np.uint64) * np.uint64(4)
        for k in world.seed.sample(range(len(index)), min(len(index), 20)):
            symbol = binary.symbols.function_at(int(target[k]))
            words = range(int(target[k]), int(target[k]) + (symbol.size if symbol else 0), 4)
            if any(world.word(vaddr) == a64.RET for vaddr in words) and vaddrs[k] + np.uint64(4) in world.code:
                found.append(int(vaddrs[k]))
    return np.array(found, np.uint64)


MUTATIONS = (Mutation(ALL, _at_entry, name="at an entry"), Mutation(ALL, _after_call, name="after a call"))
