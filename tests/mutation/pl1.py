"""PL1: records that are broken, in the file of a kernel or module."""

from __future__ import annotations

import struct

import numpy as np

from prologue.elf.dynrelocs import R_AARCH64_RELATIVE, RELA, relr_section
from prologue.kernel.module_loader import RECORDS
from tests.mutation.contract2 import process
from tests.mutation.mutation import ALL, BOTH, mutation
from tests.mutation.world import World


@mutation("PL101", BOTH)
def wrong_bounds(world: World) -> set[int]:
    """Bounds that are misaligned, the wrong way round, or around no bytes."""
    start, stop = "__start_mcount_loc", "__stop_mcount_loc"
    kind = world.seed.randrange(4)
    low, high = (world.symbol(name).vaddr for name in (start, stop))
    if kind == 0:
        new = low + world.seed.randrange(1, 8)
        world.set_symbol(world.row(start), value=new)
        return {new}
    if kind == 1:
        world.set_symbol(world.row(stop), value=high + world.seed.randrange(1, 8))
        return {low}
    if kind == 2:
        new = low - 8 * world.seed.randrange(1, 1000)
        world.set_symbol(world.row(stop), value=new)
        return {new}
    bss = world.section(".bss").addr
    world.set_symbol(world.row(start), value=bss)
    world.set_symbol(world.row(stop), value=bss + high - low)
    return {bss}


@mutation("PL102", BOTH)
def no_relocation(world: World) -> int:
    """A record with no relocation, or with two."""
    record = world.record()
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


@mutation("PL103", ("6.1", "module", "module 4,2"))
def another_relocation(world: World) -> int:
    """A record's relocation of another type."""
    record = world.record()
    kinds = (0x101, 0x102, 0x105, 0x400, 0x401, 0x402, 0x408) if world.is_kernel else (258, 260, 261, 262, 283)
    entry = int(world.records.homes[record]) - 16
    (info,) = struct.unpack_from("<Q", world.memory, entry + 8)
    world.write(entry + 8, struct.pack("<Q", info & ~0xFFFFFFFF | world.seed.choice(kinds)))
    return int(world.records.vaddrs[record])


@mutation("PL104", ("6.1",))
def another_slot(world: World) -> int:
    """A slot that says something else than its addend."""
    record = world.record()
    slot = int(world.records.vaddrs[record])
    world.write(world.offset(slot), struct.pack("<Q", world.seed.getrandbits(64) | 1))
    return slot


@mutation("PL105", ALL)
def no_text(world: World) -> int:
    """A record that points anywhere but at text, or at half an instruction."""
    record = world.record()
    if world.seed.randrange(3) == 0:
        distance = world.seed.choice((1, 2, 3))
    else:
        distance = world.seed.choice((1, -1)) * (1 << world.seed.randrange(33, 44))
    world.move_record(record, distance)
    return int(world.records.vaddrs[record])


@mutation("PL106", ALL)
def twice(world: World) -> int:
    """A record that points where another one points."""
    one, other = world.sites_(2)
    if not world.is_kernel:  # an addend cannot lead from one text section into another
        sections = [world.original.image.section_at(int(world.sites.first[k])) for k in (one, other)]
        while sections[0] != sections[1] or one == other:
            one, other = world.sites_(2)
            sections = [world.original.image.section_at(int(world.sites.first[k])) for k in (one, other)]
    a, b = (int(world.records.values[world.sites.record[k]]) for k in (one, other))
    world.move_record(int(world.sites.record[one]), b - a)
    return int(world.sites.first[other])


@mutation("PL107", ("6.12",))
def exchanged(world: World) -> int:
    """Two neighbours exchanged in a sorted table."""
    k = world.seed.randrange(int((~world.records.nonzero).sum()), len(world.records) - 1)
    low, high = int(world.records.values[k]), int(world.records.values[k + 1])
    world.move_record(k, high - low)
    world.move_record(k + 1, low - high)
    return int(world.records.vaddrs[k + 1])


@mutation("PL107", BOTH, "offsets")
def offsets(world: World) -> int:
    """Version 2: two neighbouring offsets exchanged."""
    records = process(world).records
    assert records is not None
    k = world.seed.randrange(len(records) - 1)
    home = int(records.homes[k])
    world.write(home, world.memory[home + 4 : home + 8] + world.memory[home : home + 4])
    return int(records.vaddrs[k + 1])


@mutation("PL108", ("6.1",))
def zero_record(world: World) -> int:
    """A record that is zero."""
    record = world.record()
    world.move_record(record, -int(world.records.values[record]))
    return int(world.records.vaddrs[record])


@mutation("PL109", ALL)
def moved_symbol(world: World) -> int:
    """A function whose symbol is somewhere else."""
    site, row = world.lone_function()
    world.set_symbol(row, value=world.value(row) + 4 * world.seed.randrange(3, 8))  # nearer: PL208
    return int(world.sites.entry[site])


@mutation("PL110", ALL)
def moved_records(world: World) -> set[int]:
    """Some records moved."""
    chosen = world.sites_(world.seed.randrange(1, 4))
    for site in chosen:
        record = int(world.sites.record[site])
        world.move_record(record, int(world.sites.second[site]) - int(world.records.values[record]))
    return {int(world.sites.first[site]) for site in chosen}


@mutation("PL111", ("module", "module 4,2"))
def second_section(world: World) -> set[int]:
    """A second section of the records' name."""
    image = world.original.image
    mine = world.section(RECORDS)
    relocated = {s.info for s in image.sections if s.type == "SHT_RELA"}  # its relocations need not fit records
    others = [s for s in image.sections if s.allocated and s.has_bytes and not s.size % 8 and not s.is_text]
    other = world.seed.choice([s for s in others if s.index not in relocated])
    headers = int(struct.unpack_from("<Q", world.memory, 40)[0])
    name = struct.unpack_from("<I", world.memory, headers + 64 * mine.index)[0]
    world.write(headers + 64 * other.index, struct.pack("<I", name))
    return {mine.addr, other.addr}


@mutation("PL112", BOTH, "a cut table")
def cut_table(world: World) -> set[int]:
    """A table that ends too early: at most nine tenths of the records are left, or none."""
    low, high = (world.symbol(name).vaddr for name in ("__start_mcount_loc", "__stop_mcount_loc"))
    count = (high - low) // 8
    zeros = int((~world.records.nonzero).sum())  # sorted first: they are no functions
    left = world.seed.choice((0, zeros + world.seed.randrange((count - zeros) * 9 // 10)))
    world.set_symbol(world.row("__stop_mcount_loc"), value=low + 8 * left)
    return set(world.sites.first.tolist())


@mutation("PL112", ("module", "module 4,2"), "a dropped section")
def dropped_section(world: World) -> set[int]:
    """The section of records, by another name."""
    section = world.section("__patchable_function_entries")
    headers = struct.unpack_from("<Q", world.memory, 40)[0]
    world.write(headers + 64 * section.index, struct.pack("<I", 0))
    return set(world.sites.first.tolist())


@mutation("PL113", BOTH)
def relocated_offset(world: World) -> int:
    """A relocation that writes offsets: an entry of RELA that is led there, or a filler of RELR that is an address."""
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


@mutation("PL114", ("6.1",), "zeros")
def zeros(world: World) -> int:
    """Zeros in the middle of RELA, for one entry of many: the next one is lost."""
    kernel = process(world)
    section = world.section(".rela.dyn")
    used = np.flatnonzero(kernel.image.view(section, RELA)["info"] == R_AARCH64_RELATIVE)
    k = world.pick(used[:-1])
    world.write(section.offset + RELA.itemsize * k, bytes(RELA.itemsize))
    return section.addr + RELA.itemsize * (k + 1)


@mutation("PL114", ("6.1",), "leftovers")
def leftovers(world: World) -> int:
    """Relocations among the zeros at the end of RELA."""
    kernel = process(world)
    section = world.section(".rela.dyn")
    free = np.flatnonzero(kernel.image.view(section, RELA)["info"] == 0)
    k = world.pick(free[1:])
    place = world.section(".data").addr
    world.write(section.offset + RELA.itemsize * k, struct.pack("<QQQ", place, 0x403, place))
    return section.addr + RELA.itemsize * k


@mutation("PL115", BOTH)
def places(world: World) -> int:
    """What says how to undo the processing: one slot's record in the second half of the table."""
    kernel = process(world)
    assert kernel.marker is not None
    assert kernel.bounds is not None
    slots = (kernel.bounds.stop - kernel.bounds.start) // 8
    at = kernel.bounds.file_offset + 4 * (slots + world.seed.randrange(slots))
    word = struct.unpack_from("<I", world.memory, at)[0]
    world.write(at, struct.pack("<I", word + 1 + world.seed.randrange(slots)))
    return kernel.marker.vaddr
