"""Ways to break the rest of the text, and the tables that name it: PL301 to PL310."""

from __future__ import annotations

import struct

import numpy as np

from prologue.insn import a64
from prologue.sites import tables
from prologue.sites.module import Module
from tests.mutation.mutate_sites import OFF_LIST
from tests.mutation.world import World

READS_X9 = (0x8B090000, 0xF9400120, 0xF9000009, 0xF90003E9, 0xA90127E8, 0xEB00013F, 0xB4000049, 0xD61F0120, 0x9B097C00)


def pl301(world: World) -> int:
    kind = world.seed.randrange(2)
    if kind == 0:
        prefix = world.seed.choice((b"__pi_", b"__kvm_nvhe_", b"__efistub_"))
        site, row = world.lone_function(len(prefix) + 1)
        world.rename(row, prefix)
        return int(world.sites.entry[site])
    site = world.site()
    bounds = [("__idmap_text_start", "__idmap_text_end"), ("__entry_text_start", "__entry_text_end")]
    low, high = world.seed.choice([b for b in bounds if world.original.symbols.find(b[0])])
    entry = int(world.sites.entry[site])
    for name, value in ((low, entry), (high, entry + 8)):
        row = next(r for r in world.rows_of(name) if world.name(r) == name)
        world.set_symbol(row, value=value)
    return entry


# name -> (word without its offset, lowest bit and width of the offset)
BRANCHES = {
    "B": (0x14000000, 0, 26), "BL": (0x94000000, 0, 26), "B.cond": (0x54000000, 5, 19), "CBZ": (0x34000000, 5, 19),
    "CBNZ": (0xB5000000, 5, 19), "TBZ": (0x36000000, 5, 14), "TBNZ": (0xB7000000, 5, 14),
}  # fmt: skip


def pl302(world: World) -> int:
    """A branch of any kind, as far away as its kind reaches."""
    name = world.seed.choice(list(BRANCHES))
    base, low, width = BRANCHES[name]
    while True:
        target, place = int(world.sites.second[world.site()]), world.pick(world.code)
        if width != 26:
            reach = 1 << (width + 1)
            near = world.code[(world.code > target - reach) & (world.code < target + reach)]
            place = world.pick(near) if len(near) else place
        distance = (target - place) // 4
        same = world.is_kernel or world.original.image.section_at(place) == world.original.image.section_at(target)
        if same and -(1 << (width - 1)) <= distance < 1 << (width - 1):
            world.set_word(place, base | (distance & (1 << width) - 1) << low)
            return place


def pl303(world: World) -> int:
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
    world.set_word(last, 0x91000000 | (target & 0xFFF) << 10 | register << 5 | world.seed.randrange(30))
    return last


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


def pl304(world: World) -> int:
    while True:
        site = world.site()
        place = int(world.sites.second[site]) + 4
        if place in world.code:
            break
    world.set_word(place, world.seed.choice(READS_X9))
    return int(world.sites.first[site])


def pl305(world: World) -> int:
    """Any of the other tables, aimed at a word of a site."""
    binary = world.original
    place = int(world.seed.choice((world.sites.first, world.sites.second))[world.site()])
    second = int(world.sites.second[world.site()])
    kind = world.seed.choice(("jump", "jump target", "alternative", "extable", "fixup", "bug", "blacklist"))
    if kind == "blacklist":
        start = binary.symbols.find("__start_kprobe_blacklist")
        assert start is not None
        slot = start.vaddr + 8 * world.pick(np.flatnonzero(tables.kprobe_blacklist(binary)))
        world.write(world.pointer_at(slot), struct.pack("<Q", second))  # kernels with RELR have some in RELA
        return second
    if kind in ("jump", "jump target"):
        field = world.pick(tables.jump_labels(binary).entries) + (4 if kind == "jump target" else 0)
        place = second if kind == "jump target" else place
    elif kind == "alternative":
        section = world.section(".altinstructions")
        field = section.addr + 12 * world.seed.randrange(section.size // 12)
    elif kind in ("extable", "fixup"):
        section = world.section("__ex_table")
        field = section.addr + 12 * world.seed.randrange(section.size // 12) + (4 if kind == "fixup" else 0)
    else:
        section = world.section("__bug_table")
        field = section.addr + 12 * world.seed.randrange(section.size // 12)
    world.write(world.offset(field), struct.pack("<i", place - field))
    return place


def pl306(world: World) -> int:
    far = world.seed.choice((-1, 1)) * (a64.BL_REACH + world.seed.randrange(64 << 20) * 4)
    site = world.site()
    row = next(r for r in world.rows_of("ftrace_caller") if world.name(r) == "ftrace_caller")
    world.set_symbol(row, value=int(world.sites.second[site]) + far)
    return int(world.sites.second[site])


def pl307(world: World) -> int:
    names = world.original.image.section(".shstrtab")
    assert names is not None
    at = world.memory.find(b".text.ftrace_trampoline\0", names.offset)
    assert at >= 0
    world.write(at + world.seed.randrange(6, 22), world.seed.choice((b"X", b"0", b"+")))
    return int(world.sites.first[0])


def _label(world: World) -> tuple[int, int]:
    labels = tables.jump_labels(world.original)
    k = world.seed.randrange(len(labels.code))
    return int(labels.code[k]), int(labels.target[k])


def pl308(world: World) -> int:
    code, _ = _label(world)
    call = world.original.symbols.find("ftrace_call")
    if call is not None and world.seed.random() < 0.2:
        code = call.vaddr
    world.set_word(code, world.seed.choice(OFF_LIST))
    return code


def pl309(world: World) -> int:
    code, target = _label(world)
    wrong = (target - code) // 4 + world.seed.randrange(1, 1000)
    words = (0x14000000 | wrong & 0x3FFFFFF, 0x94000000 | wrong & 0x3FFFFFF, 0xD4210000, 0x54000040, 0xB4000040)
    world.set_word(code, world.seed.choice(words))
    return code


def pl310(world: World) -> int:
    """In the file from before."""
    code, _ = _label(world)
    world.set_word(code, world.seed.choice((0x54000040, 0xB4000040, 0xB5000041, 0x36000040, 0x37080042)))
    return code
