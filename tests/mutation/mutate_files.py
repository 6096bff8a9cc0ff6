"""Ways to break what files have to do with each other: PL401 to PL406."""

from __future__ import annotations

import struct

import numpy as np

from prologue.insn import a64
from tests.mutation.world import World

NONE = 1 << 65  # an address that nothing has: the finding is about the file


def pl401(world: World) -> set[int]:
    chosen = world.sites_(world.seed.randrange(1, 30))
    for site in chosen:
        world.set_word(int(world.sites.first[site]), a64.MOV_X9_X30)
        record = int(world.sites.record[site])
        world.move_record(record, int(world.sites.second[site]) - int(world.records.values[record]))
    return {int(world.sites.first[site]) for site in chosen}


def pl402(world: World) -> int:
    """Give the kernel a marker where some other object was."""
    name = b"__ftrace_prologue_marker"
    section = world.section(".data")
    table = world.original.symbols.table
    inside = (table["value"] >= section.addr) & (table["value"] < section.addr + section.size)
    rows = np.flatnonzero(inside & (table["size"] >= 24) & (table["value"] % 8 == 0))
    # A string may name several symbols.
    names, uses = np.unique(table["name"], return_counts=True)
    rows = rows[np.isin(table["name"][rows], names[uses == 1])]
    row = next(r for r in world.seed.sample(rows.tolist(), len(rows)) if len(world.name(r)) > len(name))
    world.rename(row, name + b"\0")
    count = world.seed.choice((0, len(world.sites), world.seed.randrange(100)))
    world.write(world.offset(world.value(row)), struct.pack("<8sIIQ", b"PROLOGUE", 1, 1, count))
    return world.value(row)


def pl403(world: World) -> int:
    """One byte anywhere in the file, but not in its headers, which would make it unreadable."""
    sections = [s for s in world.original.image.sections if s.has_bytes and s.size > 64]
    section = world.seed.choice(sections)
    while section.name in (".strtab", ".shstrtab", ".symtab", ".relr.dyn") or section.type == "SHT_RELA":
        section = world.seed.choice(sections)
    at = world.seed.randrange(section.size)
    world.write(section.offset + at, bytes([world.memory[section.offset + at] ^ 1 << world.seed.randrange(8)]))
    return section.addr + at if section.allocated else NONE


def pl404(world: World) -> int:
    if world.seed.random() < 0.5:
        site = world.site()
        world.set_word(int(world.sites.first[site]), a64.MOV_X9_X30)
        return int(world.sites.first[site])
    section = world.section(world.seed.choice((".text", ".rodata", ".init.text", ".init.data", ".data")))
    at = world.seed.randrange(section.size)
    world.write(section.offset + at, bytes([world.memory[section.offset + at] ^ 1 << world.seed.randrange(8)]))
    return section.addr + (at & ~3)


def pl405(world: World) -> int:
    """One bit of a signed module."""
    section = world.seed.choice([s for s in world.original.image.text_sections if s.size > 8])
    at = section.offset + world.seed.randrange(section.size)
    world.write(at, bytes([world.memory[at] ^ 1 << world.seed.randrange(8)]))
    return NONE


def pl406(world: World) -> int:
    section = world.seed.choice([s for s in world.original.image.text_sections if s.size > 8])
    at = world.seed.randrange(section.size)
    world.write(section.offset + at, bytes([world.memory[section.offset + at] ^ 1 << world.seed.randrange(8)]))
    return section.addr
