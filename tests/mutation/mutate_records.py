"""Ways to break record tables: PL101 to PL110."""

from __future__ import annotations

import struct

from prologue.elf.image import Section
from tests.mutation.world import World


def _header(world: World, section: Section, field: int, form: str, value: int) -> None:
    """Change a field of a section header (Elf64_Shdr)."""
    start = struct.unpack_from("<Q", world.memory, 0x28)[0]
    world.write(start + 64 * section.index + field, struct.pack(form, value))


def pl101(world: World) -> set[int]:
    start, stop = "__start_mcount_loc", "__stop_mcount_loc"
    kind = world.seed.randrange(5)
    low, high = (world.value(world.rows_of(name)[0]) for name in (start, stop))
    init = world.original.symbols.find("ftrace_init")
    assert init is not None
    row = next(r for r in world.rows_of(start) if world.name(r) == start)
    if kind == 0:
        new = low + world.seed.randrange(1, 8)
        world.set_symbol(row, value=new)
        return {new}
    if kind == 1:
        row = next(r for r in world.rows_of(stop) if world.name(r) == stop)
        world.set_symbol(row, value=high + world.seed.randrange(1, 8))
        return {low}
    if kind == 2:
        row = next(r for r in world.rows_of(stop) if world.name(r) == stop)
        new = low - 8 * world.seed.randrange(1, 1000)
        world.set_symbol(row, value=new)
        return {new}
    if kind == 3:
        world.rename(row, b"__start_mc0unt_loc")
        return {0}
    section = world.original.image.section_at(low)
    assert section is not None
    _header(world, section, 4, "<I", 8)  # SHT_NOBITS
    return {low}


def pl102(world: World) -> int:
    record = world.site()
    record = int(world.sites.record[record])
    slot = int(world.records.vaddrs[record])
    if world.records.relr.any():
        _clear_relr(world, slot)
        return slot
    entry = world.rela_at(slot)
    kind = world.seed.randrange(3)
    if kind == 0:
        other = int(world.records.vaddrs[(record + world.seed.randrange(1, 1000)) % len(world.records)])
        world.write(world.rela_at(other), struct.pack("<Q", slot))  # two for one, none for the other
    elif kind == 1:
        world.write(entry + 8, struct.pack("<Q", 0))  # R_AARCH64_NONE
        world.write(world.offset(slot), struct.pack("<Q", int(world.records.values[record])))
    else:
        slot += world.seed.choice((1, 2, 4))
        world.write(entry, struct.pack("<Q", slot))
    return slot


def _clear_relr(world: World, slot: int) -> None:
    """Take one slot out of its bitmap."""
    section = world.section(".relr.dyn")
    base = 0
    for index, word in enumerate(world.original.image.view(section, "<u8").tolist()):
        if not word & 1:
            base = word + 8
            continue
        if base <= slot < base + 63 * 8:
            bit = 1 << (1 + (slot - base) // 8)
            assert word & bit
            world.write(section.offset + 8 * index, struct.pack("<Q", word & ~bit))
            return
        base += 63 * 8
    raise AssertionError(f"{slot:#x} is in no bitmap")


def pl103(world: World) -> int:
    record = int(world.sites.record[world.site()])
    kinds = (0x101, 0x102, 0x105, 0x400, 0x401, 0x402, 0x408) if world.is_kernel else (258, 260, 261, 262, 283)
    entry = int(world.records.homes[record]) - 16
    (info,) = struct.unpack_from("<Q", world.memory, entry + 8)
    world.write(entry + 8, struct.pack("<Q", info & ~0xFFFFFFFF | world.seed.choice(kinds)))
    return int(world.records.vaddrs[record])


def pl104(world: World) -> int:
    record = int(world.sites.record[world.site()])
    slot = int(world.records.vaddrs[record])
    world.write(world.offset(slot), struct.pack("<Q", world.seed.getrandbits(64) | 1))
    return slot


def pl105(world: World) -> int:
    record = int(world.sites.record[world.site()])
    kind = world.seed.randrange(3)
    if kind == 0:
        distance = world.seed.choice((1, 2, 3))
    else:
        distance = world.seed.choice((1, -1)) * (1 << world.seed.randrange(33, 44))
    world.move_record(record, distance)
    return int(world.records.vaddrs[record])


def pl106(world: World) -> int:
    one, other = world.sites_(2)
    if not world.is_kernel:  # an addend cannot lead from one text section into another
        sections = [world.original.image.section_at(int(world.sites.first[k])) for k in (one, other)]
        while sections[0] != sections[1] or one == other:
            one, other = world.sites_(2)
            sections = [world.original.image.section_at(int(world.sites.first[k])) for k in (one, other)]
    a, b = (int(world.records.values[world.sites.record[k]]) for k in (one, other))
    world.move_record(int(world.sites.record[one]), b - a)
    return int(world.sites.first[other])


def pl107(world: World) -> int:
    k = world.seed.randrange(int((~world.records.live).sum()), len(world.records) - 1)
    low, high = int(world.records.values[k]), int(world.records.values[k + 1])
    world.move_record(k, high - low)
    world.move_record(k + 1, low - high)
    return int(world.records.vaddrs[k + 1])


def pl108(world: World) -> int:
    record = int(world.sites.record[world.site()])
    world.move_record(record, -int(world.records.values[record]))
    return int(world.records.vaddrs[record])


def pl109(world: World) -> int:
    site, row = world.lone_function()
    info = int(world.original.symbols.table["info"][row])
    if world.seed.random() < 0.5:
        world.set_symbol(row, info=info & 0xF0)  # STT_NOTYPE
    else:
        world.set_symbol(row, value=world.value(row) + 4 * world.seed.randrange(1, 8))
    return int(world.sites.entry[site])


def pl110(world: World) -> set[int]:
    chosen = world.sites_(world.seed.randrange(1, 4))
    for site in chosen:
        record = int(world.sites.record[site])
        world.move_record(record, int(world.sites.second[site]) - int(world.records.values[record]))
    return {int(world.sites.first[site]) for site in chosen}
