"""PL2: sites that are broken."""

from __future__ import annotations

import numpy as np

from prologue.insn import a64
from tests.mutation.mutation import ALL, BOTH, OFF_LIST, mutation
from tests.mutation.world import World


@mutation("PL201", ALL)
def another_word(world: World) -> int:
    """Another word in a slot."""
    site = world.site()
    slot = world.seed.choice((world.sites.first, world.sites.second))
    flipped = world.word(int(slot[site])) ^ 1 << world.seed.randrange(5, 12)
    word = world.seed.choice((*OFF_LIST, 0x94000010, 0x14000010, 0x00000000, flipped))
    world.set_word(int(slot[site]), word if word & a64.BTI_MASK != a64.BTI else 0)
    return int(world.sites.first[site])


@mutation("PL202", ALL)
def some_prologues(world: World) -> set[int]:
    """Some sites with a prologue."""
    chosen = world.sites_(world.seed.randrange(1, max(2, min(50, len(world.sites) // 2))))
    for site in chosen:
        world.set_word(int(world.sites.first[site]), a64.MOV_X9_X30)
    return {int(world.sites.first[site]) for site in chosen}


@mutation("PL203", ALL)
def pad_after(world: World) -> int:
    """A landing pad after the prologue."""
    site = world.site()
    world.set_word(int(world.sites.first[site]), a64.MOV_X9_X30)
    world.set_word(int(world.sites.second[site]), world.seed.choice((a64.BTI, a64.BTI_C, a64.BTI_J, a64.BTI_JC)))
    return int(world.sites.first[site])


@mutation("PL204", ("6.12", "module 4,2"))
def half_literal(world: World) -> int | set[int]:
    """Half of a literal that is no NOP."""
    site = world.site()
    literal = int(world.sites.entry[site]) - 8
    place = literal + world.seed.choice((0, 4))
    word = world.seed.choice((*OFF_LIST, 0, a64.MOV_X9_X30, a64.NOP ^ 1 << world.seed.randrange(32)))
    world.set_word(place, word)
    if place > literal and word & a64.BTI_MASK == a64.BTI:
        return {literal - 4}  # one bit makes a landing pad of a NOP: the function then begins there, unaligned
    return literal


@mutation("PL205", ("6.12",))
def kcfi(world: World) -> int:
    """A kCFI symbol in a kernel with call-ops literals."""
    name = world.seed.choice((b"report_cfi_failure", b"__kcfi_typeid_printk"))
    while True:
        site, row = world.lone_function(len(name))
        if int(world.original.symbols.table["info"][row]) >> 4:  # global, so that find() prefers it
            break
    world.rename(row, name + b"\0")
    return int(world.sites.entry[site]) if name.startswith(b"report") else int(world.sites.entry[0])


@mutation("PL206", BOTH, "a MOV")
def planted_pair(world: World) -> int:
    """MOV; NOP somewhere."""
    place = world.pick(world.code)
    # A MOV before what a record points at makes a moved record of it: that breaks something else.
    while place + 4 not in world.code or place + 4 in world.records.values:
        place = world.pick(world.code)
    world.set_word(place, a64.MOV_X9_X30)
    world.set_word(place + 4, a64.NOP)
    return place


@mutation("PL206", BOTH, "a lost record")
def lost_record(world: World) -> int:
    """A record that names another function's site."""
    site, _ = world.lone_function()
    record = int(world.sites.record[site])
    other = int(world.sites.record[(site + 1) % len(world.sites)])
    world.move_record(record, int(world.records.values[other]) - int(world.records.values[record]))
    return int(world.sites.first[site])


@mutation("PL207", ALL)
def signed_before(world: World) -> int:
    """A return address signed or pushed before the pair."""
    site, row = world.lone_function()
    while not world.original.image.in_text(world.sites.first[site : site + 1] - np.uint64(4))[0]:
        site, row = world.lone_function()
    place = int(world.sites.first[site]) - 4
    world.set_word(place, world.seed.choice((a64.PACIASP, a64.SCS_PUSH)))
    world.set_symbol(row, value=world.value(row) - 4)
    return place


@mutation("PL208", ALL)
def symbols_at_second(world: World) -> int:
    """A function whose symbols stand at its second slot."""
    site = world.site()
    second = int(world.sites.second[site])
    types = world.original.symbols.table["info"] & 15
    for row in world.rows_at(int(world.sites.entry[site])):
        if types[row] != 3:  # STT_SECTION: records of modules are relative to it
            world.set_symbol(row, value=world.value(row) + second - int(world.sites.entry[site]))
    return second
