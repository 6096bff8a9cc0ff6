"""PL4: what disagrees with the contract, or with another file."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from prologue.elf.dynrelocs import RELA, relr_section
from prologue.insn import a64
from prologue.insn.decode import ADRP
from prologue.kernel.marker import SYMBOL
from prologue.kernel.marker_reader import FLAGS, loaded
from tests.mutation.contract2 import plant_marker, process
from tests.mutation.mutation import ALL, BOTH, NONE, mutation
from tests.mutation.world import World


@mutation("PL401", BOTH, "kernel")
def some_moved(world: World) -> set[int]:
    """Moved records, with prologues, in a stock kernel."""
    return _move(world, world.sites_(world.seed.randrange(1, 30)))


@mutation("PL401", ("module", "module 4,2"), "module")
def all_moved(world: World) -> set[int]:
    return _move(world, list(range(len(world.sites))))


def _move(world: World, chosen: list[int]) -> set[int]:
    for site in chosen:
        world.set_word(int(world.sites.first[site]), a64.MOV_X9_X30)
        record = int(world.sites.record[site])
        world.move_record(record, int(world.sites.second[site]) - int(world.records.values[record]))
    return {int(world.sites.first[site]) for site in chosen}


@mutation("PL402", BOTH)
def planted_marker(world: World) -> int:
    """A marker where some other object was, that disagrees with the kernel."""
    count = world.seed.choice((0, len(world.sites), world.seed.randrange(100)))
    return plant_marker(world, struct.pack("<8sIIQ", b"PROLOGUE", 1, 1, count))


@mutation("PL402", BOTH, "count, version 2")
def count_sites(world: World) -> int:
    """Version 2: another number of sites than the table has."""
    marker = process(world).marker
    assert marker is not None
    other = world.seed.choice((0, marker.sites - 1, marker.sites + 1, world.seed.randrange(1 << 20)))
    world.write(marker.offset + 16, struct.pack("<Q", other))
    return marker.vaddr


@mutation("PL403", ALL)
def any_bit(world: World) -> int:
    """One bit anywhere in the file, but not in its headers, which would make it unreadable."""
    sections = [s for s in world.original.image.sections if s.has_bytes and s.size > 64]
    section = world.seed.choice(sections)
    while section.name in (".strtab", ".shstrtab", ".symtab", ".relr.dyn") or section.type == "SHT_RELA":
        section = world.seed.choice(sections)
    at = world.seed.randrange(section.size)
    world.flip_bit(section.offset + at)
    return section.addr + at if section.allocated else NONE


@mutation("PL404", BOTH)
def not_in_image(world: World) -> int:
    """One word or one bit that the boot file does not have."""
    if world.seed.random() < 0.5:
        site = world.site()
        world.set_word(int(world.sites.first[site]), a64.MOV_X9_X30)
        return int(world.sites.first[site])
    section = world.section(world.seed.choice((".text", ".rodata", ".init.text", ".init.data", ".data")))
    at = world.seed.randrange(section.size)
    world.flip_bit(section.offset + at)
    return section.addr + (at & ~3)


@mutation("PL405", ("signed",))
def signed_bit(world: World) -> int:
    """One bit of a signed module."""
    section = world.seed.choice([s for s in world.original.image.text_sections if s.size > 8])
    world.flip_bit(section.offset + world.seed.randrange(section.size))
    return NONE


@mutation("PL406", ALL)
def text_bit(world: World) -> int:
    """One bit of the text, with the same build ID."""
    section = world.seed.choice([s for s in world.original.image.text_sections if s.size > 8])
    world.flip_bit(section.offset + world.seed.randrange(section.size))
    return section.addr


READER = "arch_ftrace_begin_records"
CALLER = "ftrace_make_core_records"  # in ftrace_init, unless the compiler inlined it


def _body(world: World, name: str) -> list[int]:
    """Addresses of a function's instructions."""
    found = world.symbol(name)
    return list(range(found.vaddr, found.vaddr + found.size, 4))


def _load(world: World) -> int:
    """The reader's load of the flags, whose offset the compiler put into the load."""
    flags = world.symbol(SYMBOL).vaddr + FLAGS
    for place in _body(world, READER):
        word = world.word(place)
        address, width = loaded(word, word >> 5 & 31, 0)
        if 0 < width <= 4 and address in (FLAGS, flags & 0xFFF):
            return place
    raise AssertionError("no load of the flags")


def another_word(world: World) -> None:
    """The reader loads some other field of the marker, or what is next to it."""
    place = _load(world)
    world.set_word(place, world.word(place) + (world.seed.choice((-3, -2, 1, 2, 3, 4)) << 10))


def another_page(world: World) -> None:
    """Every address that it forms is some pages away."""
    distance = world.seed.choice((-9, -4, 3, 8))
    mask, value = ADRP
    for place in [place for place in _body(world, READER) if world.word(place) & mask == value]:
        word = world.word(place)
        pages = (word >> 5 & 0x7FFFF) + distance & 0x7FFFF
        world.set_word(place, word & ~(0x7FFFF << 5) | pages << 5)


def not_called(world: World) -> None:
    """The boot does not call the reader."""
    (target, *_) = _body(world, READER)
    inlined = world.original.symbols.find(CALLER) is None
    for place in _body(world, "ftrace_init" if inlined else CALLER):
        if world.word(place) & 0xFC000000 == 0x94000000 and a64.branch_target(world.word(place), place) == target:
            world.set_word(place, a64.MOV_W0_0)


def elsewhere(world: World) -> None:
    """The marker and its symbol are somewhere else in init data."""
    old = world.symbol(SYMBOL).vaddr
    new = old + 8 * world.seed.randrange(3, 64)
    begin = world.offset(old)
    world.write(world.offset(new), bytes(world.memory[begin : begin + 24]))
    world.set_symbol(world.row(SYMBOL), value=new)


WAYS: tuple[Callable[[World], None], ...] = (another_word, another_page, not_called, elsewhere)


@mutation("PL407", ("native 6.1", "native 6.12"))
def marker_not_read(world: World) -> int:
    """The boot no longer reads the marker, in kernels that carry our patch.

    A boot that never gets to ftrace_init_nop, in a kernel without prologues, is PL408's.
    """
    world.seed.choice(WAYS)(world)
    return NONE


CHAIN = ("ftrace_init", "ftrace_process_locs")


@mutation("PL408", BOTH)
def no_call(world: World) -> int:
    """The calls of the next function on the way to ftrace_init_nop are NOPs; where it is inlined, none is reached."""
    function, entry = world.symbol(world.seed.choice(CHAIN)), world.symbol(CHAIN[0])
    callee = world.symbol(CHAIN[1] if function.name == CHAIN[0] else "ftrace_init_nop")
    words = range(function.vaddr, function.vaddr + function.size, 4)
    calls = [
        vaddr
        for vaddr in words
        if a64.classify(world.word(vaddr)) == "BL" and a64.branch_target(world.word(vaddr), vaddr) == callee.vaddr
    ]
    for vaddr in calls:
        world.set_word(vaddr, a64.NOP)
    if not calls:  # it returns at once, past the pair of a traced function, which is another rule's
        world.set_word(next(vaddr for vaddr in words if world.word(vaddr) != a64.NOP), a64.RET)
    return entry.vaddr


@mutation("PL409", BOTH)
def other_relocations(world: World) -> int:
    """Relocations of other things than records: an entry of RELA changed, or a bit of RELR."""
    kernel = process(world)
    relr = relr_section(kernel.image)
    if relr is not None:
        words = kernel.image.view(relr, "<u8")
        maps = np.flatnonzero(words & np.uint64(1) == 1)
        k = world.pick(maps)
        world.write(relr.offset + 8 * k, struct.pack("<Q", int(words[k]) ^ 2 << world.seed.randrange(63)))
        return NONE
    section = world.section(".rela.dyn")
    k = world.pick(np.flatnonzero(kernel.image.view(section, RELA)["info"] != 0))
    at = section.offset + RELA.itemsize * k + world.seed.choice((0, 16))
    world.write(at, struct.pack("<Q", struct.unpack_from("<Q", world.memory, at)[0] + 8))
    return NONE
