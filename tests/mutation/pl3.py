"""PL3: code, pointers and tables that disagree with sites, and jump labels."""

from __future__ import annotations

import struct
from functools import partial

import numpy as np

from prologue.arrays import U64
from prologue.insn import a64
from prologue.kernel import tables
from prologue.kernel.module import Module
from tests.mutation.mutation import ALL, BOTH, OFF_LIST, mutation
from tests.mutation.world import World

# 6.1 traces the first two on purpose.
SECTIONS = ("__kprobes_text", "__cpuidle_text", "__noinstr_text")


@mutation("PL301", BOTH, "a name")
def renamed(world: World) -> int:
    """A site in code with a name that only untraced code has."""
    prefix = world.seed.choice((b"__pi_", b"__kvm_nvhe_", b"__efistub_"))
    site, row = world.lone_function(len(prefix) + 1)
    world.rename(row, prefix)
    return int(world.sites.entry[site])


@mutation("PL301", BOTH, "a record in a section")
def traced_in_section(world: World) -> int:
    """Make a function of such a section traced: the NOPs, and some other function's record."""
    name = world.seed.choice(SECTIONS if world.sites.layout == "4,2" else SECTIONS[2:])
    low, high = (world.symbol(f"{name}_{end}").vaddr for end in ("start", "end"))
    starts = world.original.symbols.function_starts
    place = world.pick(starts[(starts >= low) & (starts < high) & (starts % np.uint64(8) == 0)])
    for distance in (-8, -4, 0, 4) if world.sites.layout == "4,2" else (0, 4):
        world.set_word(place + distance, a64.NOP)
    record = world.record()
    prefix = 8 if world.sites.layout == "4,2" else 0
    world.move_record(record, place - prefix - int(world.records.values[record]))
    return place


# name -> (word without its offset, lowest bit and width of the offset)
BRANCHES = {
    "B": (0x14000000, 0, 26), "BL": (0x94000000, 0, 26), "B.cond": (0x54000000, 5, 19), "BC.cond": (0x54000010, 5, 19),
    "CBZ": (0x34000000, 5, 19), "CBNZ": (0xB5000000, 5, 19), "TBZ": (0x36000000, 5, 14), "TBNZ": (0xB7000000, 5, 14),
    "CBGT": (0xF4080000, 5, 9), "CBEQ": (0x75C28000, 5, 9),
}  # fmt: skip


@mutation("PL302", ALL)
def branch(world: World) -> int:
    """A branch of any kind to a second slot, as far away as its kind reaches."""
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


def _target(world: World) -> int:
    """A second slot."""
    return int(world.sites.second[world.site()])


@mutation("PL303", ALL, "a pointer")
def pointer(world: World) -> int:
    if isinstance(world.original, Module):
        return _pointer_in_module(world)
    pointers = world.original.pointers
    place = world.pick(pointers.places[~np.isin(pointers.places, world.records.vaddrs)])
    world.write(world.pointer_at(place), struct.pack("<Q", _target(world)))
    return place


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


@mutation("PL303", BOTH, "an export")
def export(world: World) -> int:
    """An entry of a table of 32-bit distances."""
    low, high = (world.symbol(f"__{end}___ksymtab").vaddr for end in ("start", "stop"))
    place = low + 12 * world.seed.randrange((high - low) // 12)
    _aim(world, place, _target(world))
    return place


@mutation("PL303", BOTH, "ADR")
def adr(world: World) -> int:
    target = _target(world)
    place = world.pick(world.code[(world.code > target - (1 << 19)) & (world.code < target + (1 << 19))])
    distance = target - place
    register = world.seed.randrange(28)
    world.set_word(place, 0x10000000 | (distance & 3) << 29 | (distance >> 2 & 0x7FFFF) << 5 | register)
    return place


@mutation("PL303", BOTH, "ADRP, ADD")
def adrp_add(world: World) -> int:
    """ADRP, up to two other instructions, ADD, and perhaps another ADD that goes on from it."""
    target, register, symbols = _target(world), world.seed.randrange(28), world.original.symbols
    while True:
        place = world.pick(world.code)
        between = world.seed.randrange(3)
        last = place + 4 * (1 + between)
        # Between two functions nothing is formed: the second one is not entered through the first.
        if symbols.locate(place).symbol != symbols.locate(last).symbol:
            continue
        if all(_is_room(world, vaddr) for vaddr in range(place, last + 4, 4)):
            break
    pages = (target >> 12) - (place >> 12)
    world.set_word(place, 0x90000000 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5 | register)
    for k in range(between):
        world.set_word(place + 4 * (k + 1), a64.NOP)
    rest = 0
    inside = symbols.locate(place).symbol == symbols.locate(last + 4).symbol and _is_room(world, last + 4)
    if inside and world.seed.random() < 0.5 and target & 0xFFF >= 8:
        rest = 4  # a base, and an ADD that goes on from it
        world.set_word(last + 4, 0x91000000 | rest << 10 | register << 5 | world.seed.randrange(30))
    to = register if rest else world.seed.randrange(30)
    world.set_word(last, 0x91000000 | ((target & 0xFFF) - rest) << 10 | register << 5 | to)
    return last + rest


def _is_room(world: World, vaddr: int) -> bool:
    at = int(np.searchsorted(world.code, np.uint64(vaddr)))
    return at < len(world.code) and int(world.code[at]) == vaddr


READS_X9 = (0x8B090000, 0xF9400120, 0xF9000009, 0xF90003E9, 0xA90127E8, 0xEB00013F, 0xB4000049, 0xD61F0120, 0x9B097C00)


@mutation("PL304", ALL, "at an entry")
def read_at_entry(world: World) -> int:
    """A read of X9 right after the pair."""
    while True:
        site = world.site()
        place = int(world.sites.second[site]) + 4
        if place in world.code:
            break
    world.set_word(place, world.seed.choice(READS_X9))
    return int(world.sites.first[site])


@mutation("PL304", ALL, "after a call")
def read_after_call(world: World) -> int:
    """A read of X9 right after a call of a traced function."""
    calls = _calls(world)
    if not len(calls):  # a small module
        return read_at_entry(world)
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


# Tables of other patchers, with entries of 12 bytes, and where in these a distance is.
TABLES = {
    "an alternative": (".altinstructions", 0), "an exception": ("__ex_table", 0), "a fixup": ("__ex_table", 4),
    "a BUG": ("__bug_table", 0),
}  # fmt: skip


def _aim(world: World, field: int, place: int) -> int:
    """Let a field that holds a distance lead to a place."""
    world.write(world.offset(field), struct.pack("<i", place - field))
    return place


def _slot(world: World) -> int:
    """Either word of some site."""
    return int(world.seed.choice((world.sites.first, world.sites.second))[world.site()])


def _entry(world: World, section: str, offset: int) -> int:
    found = world.section(section)
    return _aim(world, found.addr + 12 * world.seed.randrange(found.size // 12) + offset, _slot(world))


for _name, (_section, _offset) in TABLES.items():
    mutation("PL305", BOTH, _name)(partial(_entry, section=_section, offset=_offset))


@mutation("PL305", BOTH, "a jump label")
def label(world: World) -> int:
    return _aim(world, world.pick(tables.jump_labels(world.original).entries), _slot(world))


@mutation("PL305", BOTH, "a jump label's target")
def label_target(world: World) -> int:
    return _aim(world, world.pick(tables.jump_labels(world.original).entries) + 4, _target(world))


@mutation("PL305", BOTH, "the kprobe blacklist")
def blacklist(world: World) -> int:
    second = _target(world)
    slot = world.symbol("__start_kprobe_blacklist").vaddr + 8 * world.pick(
        np.flatnonzero(tables.kprobe_blacklist(world.original))
    )
    world.write(world.pointer_at(slot), struct.pack("<Q", second))  # kernels with RELR have some in RELA
    return second


@mutation("PL306", BOTH)
def far_caller(world: World) -> int:
    """The function ftrace_caller too far away."""
    far = world.seed.choice((-1, 1)) * (a64.BL_REACH + world.seed.randrange(64 << 20) * 4)
    second = _target(world)
    world.set_symbol(world.row("ftrace_caller"), value=second + far)
    return second


@mutation("PL307", ("module", "module 4,2"))
def no_trampoline(world: World) -> int:
    """A trampoline section of another name."""
    at = world.memory.find(b".text.ftrace_trampoline\0", world.section(".shstrtab").offset)
    assert at >= 0
    world.write(at + world.seed.randrange(6, 22), world.seed.choice((b"X", b"0", b"+")))
    return int(world.sites.first[0])


@mutation("PL308", BOTH)
def unlisted_label(world: World) -> int:
    """An instruction at a jump label that may not be changed in a running kernel."""
    code, _ = world.jump_label()
    call = world.original.symbols.find("ftrace_call")
    if call is not None and world.seed.random() < 0.2:
        code = call.vaddr
    world.set_word(code, world.seed.choice(OFF_LIST))
    return code


@mutation("PL309", BOTH)
def wrong_branch(world: World) -> int:
    """A branch at a jump label that leads somewhere else."""
    code, target = world.jump_label()
    wrong = (target - code) // 4 + world.seed.randrange(1, 1000)
    words = (0x14000000 | wrong & 0x3FFFFFF, 0x94000000 | wrong & 0x3FFFFFF, 0xD4210000, 0x54000040, 0xB4000040)
    world.set_word(code, world.seed.choice(words))
    return code


@mutation("PL310", BOTH, of_before=True)
def conditional(world: World) -> int:
    """A conditional branch at a jump label, in the file from before."""
    code, _ = world.jump_label()
    world.set_word(code, world.seed.choice((0x54000040, 0xB4000040, 0xB5000041, 0x36000040, 0x37080042)))
    return code
