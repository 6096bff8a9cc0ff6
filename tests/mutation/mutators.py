"""For every rule, ways to break a real file that it must see. Each returns where it broke it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from prologue import a64
from prologue.elf.dynrelocs import RELA
from prologue.elf.image import Section
from prologue.sites import tables
from prologue.sites.module import Module
from tests.mutation.world import World

BTIS = (a64.BTI, a64.BTI_C, a64.BTI_J, a64.BTI_JC)
# Instructions that no list has, and that are neither NOP, MOV X9, X30 nor a landing pad.
OFF_LIST = (0xAA0503E5, 0xD503203F, 0x91000000, 0xF9400000, 0xD65F03C0, 0xD503233F, 0x8B010000, 0xB9000000)
READS_X9 = (0x8B090000, 0xF9400120, 0xF9000009, 0xF90003E9, 0xA90127E8, 0xEB00013F, 0xB4000049, 0xD61F0120, 0x9B097C00)
Where = Literal["6.1", "6.12", "module", "module 4,2", "signed"]
NONE = 1 << 65  # an address that nothing has: the finding is about the file


@dataclass(frozen=True, slots=True)
class Mutator:
    """What it breaks, in which real files, and how."""

    code: str
    where: tuple[Where, ...]
    mutate: Callable[[World], int | set[int]]  # address(es) of which one must be named


def _section(world: World, name: str) -> Section:
    section = world.original.image.section(name)
    assert section is not None, name
    return section


def _header(world: World, section: Section, field: int, form: str, value: int) -> None:
    """Change a field of a section header (Elf64_Shdr)."""
    start = struct.unpack_from("<Q", world.memory, 0x28)[0]
    world.write(start + 64 * section.index + field, struct.pack(form, value))


def _rela_at(world: World, target: int) -> int:
    """File offset of the RELA entry for an address."""
    for section in world.original.image.sections:
        if section.type == "SHT_RELA" and section.allocated:
            hit = np.flatnonzero(world.original.image.view(section, RELA)["offset"] == target)
            if len(hit):
                return section.offset + 24 * int(hit[0])
    raise AssertionError(f"no relocation at {target:#x}")


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
    entry = _rela_at(world, slot)
    kind = world.seed.randrange(3)
    if kind == 0:
        other = int(world.records.vaddrs[(record + world.seed.randrange(1, 1000)) % len(world.records)])
        world.write(_rela_at(world, other), struct.pack("<Q", slot))  # two for one, none for the other
    elif kind == 1:
        world.write(entry + 8, struct.pack("<Q", 0))  # R_AARCH64_NONE
        world.write(world.offset(slot), struct.pack("<Q", int(world.records.values[record])))
    else:
        slot += world.seed.choice((1, 2, 4))
        world.write(entry, struct.pack("<Q", slot))
    return slot


def _clear_relr(world: World, slot: int) -> None:
    """Take one slot out of its bitmap."""
    section = _section(world, ".relr.dyn")
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
        while world.seed.random() >= 0 and place + 4 not in world.code:
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
        home = world.offset(place)
        if not world.records.relr.any():
            home = _rela_at(world, place) + 16
        world.write(home, struct.pack("<Q", target))
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
        if world.records.relr.any():
            world.write(world.offset(slot), struct.pack("<Q", second))
        else:
            world.write(_rela_at(world, slot) + 16, struct.pack("<Q", second))
        return second
    if kind in ("jump", "jump target"):
        field = world.pick(tables.jump_labels(binary).entries) + (4 if kind == "jump target" else 0)
        place = second if kind == "jump target" else place
    elif kind == "alternative":
        section = _section(world, ".altinstructions")
        field = section.addr + 12 * world.seed.randrange(section.size // 12)
    elif kind in ("extable", "fixup"):
        section = _section(world, "__ex_table")
        field = section.addr + 12 * world.seed.randrange(section.size // 12) + (4 if kind == "fixup" else 0)
    else:
        section = _section(world, "__bug_table")
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
    section = _section(world, ".data")
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
    section = _section(world, world.seed.choice((".text", ".rodata", ".init.text", ".init.data", ".data")))
    at = world.seed.randrange(section.size)
    world.write(section.offset + at, bytes([world.memory[section.offset + at] ^ 1 << world.seed.randrange(8)]))
    return section.addr + (at & ~3)


def pl405(world: World) -> int:
    """One bit of a signed module."""
    section = world.seed.choice([s for s in world.original.image.text if s.size > 8])
    at = section.offset + world.seed.randrange(section.size)
    world.write(at, bytes([world.memory[at] ^ 1 << world.seed.randrange(8)]))
    return NONE


def pl406(world: World) -> int:
    section = world.seed.choice([s for s in world.original.image.text if s.size > 8])
    at = world.seed.randrange(section.size)
    world.write(section.offset + at, bytes([world.memory[section.offset + at] ^ 1 << world.seed.randrange(8)]))
    return section.addr


BOTH: tuple[Where, ...] = ("6.1", "6.12")
ALL: tuple[Where, ...] = ("6.1", "6.12", "module", "module 4,2")
MUTATORS = (
    Mutator("PL101", BOTH, pl101),
    Mutator("PL102", BOTH, pl102),
    Mutator("PL103", ("6.1", "module", "module 4,2"), pl103),
    Mutator("PL104", ("6.1",), pl104),
    Mutator("PL105", ALL, pl105),
    Mutator("PL106", ALL, pl106),
    Mutator("PL107", ("6.12",), pl107),
    Mutator("PL108", ("6.1",), pl108),
    Mutator("PL109", ALL, pl109),
    Mutator("PL110", ALL, pl110),
    Mutator("PL201", ALL, pl201),
    Mutator("PL202", ALL, pl202),
    Mutator("PL203", ALL, pl203),
    Mutator("PL204", ("6.12", "module 4,2"), pl204),
    Mutator("PL205", ("6.12",), pl205),
    Mutator("PL206", BOTH, pl206),
    Mutator("PL207", ALL, pl207),
    Mutator("PL301", BOTH, pl301),
    Mutator("PL302", ALL, pl302),
    Mutator("PL303", ALL, pl303),
    Mutator("PL304", ALL, pl304),
    Mutator("PL305", BOTH, pl305),
    Mutator("PL306", BOTH, pl306),
    Mutator("PL307", ("module", "module 4,2"), pl307),
    Mutator("PL308", BOTH, pl308),
    Mutator("PL309", BOTH, pl309),
    Mutator("PL310", BOTH, pl310),
    Mutator("PL401", BOTH, pl401),
    Mutator("PL402", BOTH, pl402),
    Mutator("PL403", ALL, pl403),
    Mutator("PL404", BOTH, pl404),
    Mutator("PL405", ("signed",), pl405),
    Mutator("PL406", ALL, pl406),
)
