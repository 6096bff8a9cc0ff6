"""Ways to break sites: PL201 to PL207."""

from __future__ import annotations

import numpy as np

from prologue.insn import a64
from tests.mutation.world import World

BTIS = (a64.BTI, a64.BTI_C, a64.BTI_J, a64.BTI_JC)
# Instructions that no list has, and that are neither NOP, MOV X9, X30 nor a landing pad.
OFF_LIST = (0xAA0503E5, 0xD503203F, 0x91000000, 0xF9400000, 0xD65F03C0, 0xD503233F, 0x8B010000, 0xB9000000)


def pl201(world: World) -> int:
    site = world.site()
    slot = world.seed.choice((world.sites.first, world.sites.second))
    words = (
        *OFF_LIST,
        0x94000010,
        0x14000010,
        0x00000000,
        world.word(int(slot[site])) ^ 1 << world.seed.randrange(5, 12),
    )
    word = world.seed.choice(words)
    world.set_word(int(slot[site]), word if word & a64.BTI_MASK != a64.BTI else 0)
    return int(world.sites.first[site])


def pl202(world: World) -> set[int]:
    chosen = world.sites_(world.seed.randrange(1, max(2, min(50, len(world.sites) // 2))))
    for site in chosen:
        world.set_word(int(world.sites.first[site]), a64.MOV_X9_X30)
    return {int(world.sites.first[site]) for site in chosen}


def pl203(world: World) -> int:
    site = world.site()
    world.set_word(int(world.sites.first[site]), a64.MOV_X9_X30)
    world.set_word(int(world.sites.second[site]), world.seed.choice(BTIS))
    return int(world.sites.first[site])


def pl204(world: World) -> int:
    site = world.site()
    literal = int(world.sites.entry[site]) - 8
    place = literal + world.seed.choice((0, 4))
    word = world.seed.choice((*OFF_LIST, 0, a64.MOV_X9_X30, a64.NOP ^ 1 << world.seed.randrange(32)))
    world.set_word(place, word)
    return literal


def pl205(world: World) -> int:
    name = world.seed.choice((b"report_cfi_failure", b"__kcfi_typeid_printk"))
    while True:
        site, row = world.lone_function(len(name))
        if int(world.original.symbols.table["info"][row]) >> 4:  # global, so that find() prefers it
            break
    world.rename(row, name + b"\0")
    return int(world.sites.entry[site]) if name.startswith(b"report") else int(world.sites.entry[0])


def pl206(world: World) -> int:
    if world.seed.random() < 0.5:
        place = world.pick(world.code)
        # A MOV in front of what a record points at makes a moved record of it: that breaks something else.
        while place + 4 not in world.code or place + 4 in world.records.values:
            place = world.pick(world.code)
        world.set_word(place, a64.MOV_X9_X30)
        world.set_word(place + 4, a64.NOP)
        return place
    site, _ = world.lone_function()
    record = int(world.sites.record[site])
    other = int(world.sites.record[(site + 1) % len(world.sites)])
    world.move_record(record, int(world.records.values[other]) - int(world.records.values[record]))
    return int(world.sites.first[site])


def pl207(world: World) -> int:
    site, row = world.lone_function()
    while not world.original.image.in_text(world.sites.first[site : site + 1] - np.uint64(4))[0]:
        site, row = world.lone_function()
    place = int(world.sites.first[site]) - 4
    world.set_word(place, world.seed.choice((a64.PACIASP, a64.SCS_PUSH)))
    world.set_symbol(row, value=world.value(row) - 4)
    return place
