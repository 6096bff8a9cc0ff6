"""PL303: a pointer, or instructions that form one, to a second slot."""

from __future__ import annotations

import struct
from functools import partial

import numpy as np

from prologue.insn import a64
from prologue.kernel.module import Module
from tests.mutation.mutation import ALL, BOTH, Mutation
from tests.mutation.world import World

# Tables of 32-bit distances: the symbols that bound them, and bytes of an entry. No Debian kernel has static calls.
RELATIVE = {
    "an export": ("__start___ksymtab", "__stop___ksymtab", 12),
    "an export (GPL)": ("__start___ksymtab_gpl", "__stop___ksymtab_gpl", 12),
    "an initcall": ("__initcall_start", "__initcall_end", 4),
    "a tracepoint": ("__start___tracepoints_ptrs", "__stop___tracepoints_ptrs", 4),
}


def _target(world: World) -> int:
    return int(world.sites.second[world.site()])


def _pointer(world: World) -> int:
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


def _distance(world: World, start: str, stop: str, size: int) -> int:
    low, high = world.original.symbols.find(start), world.original.symbols.find(stop)
    assert low is not None
    assert high is not None
    place = low.vaddr + size * world.seed.randrange((high.vaddr - low.vaddr) // size)
    world.write(world.offset(place), struct.pack("<i", _target(world) - place))
    return place


def _adr(world: World) -> int:
    target = _target(world)
    place = world.pick(world.code[(world.code > target - (1 << 19)) & (world.code < target + (1 << 19))])
    distance = target - place
    register = world.seed.randrange(28)
    world.set_word(place, 0x10000000 | (distance & 3) << 29 | (distance >> 2 & 0x7FFFF) << 5 | register)
    return place


def _adrp(world: World, place: int, target: int, register: int) -> None:
    pages = (target >> 12) - (place >> 12)
    world.set_word(place, 0x90000000 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5 | register)


def _adrp_add(world: World) -> int:
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
    _adrp(world, place, target, register)
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


def _adrp_far(world: World) -> int:
    """ADRP and ADD with 30 to 900 real instructions between them, none of which names the register."""
    target, symbols, text = _target(world), world.original.symbols, world.original.text
    while True:
        place = world.pick(world.code)
        last = place + 4 * world.seed.randrange(31, 900)
        raw = text.read_at(place, last + 4 - place)
        if raw is None or symbols.locate(place).symbol != symbols.locate(last).symbol or not _is_room(world, last):
            continue
        words = np.frombuffer(raw, "<u4")[1:-1]
        named = {number for low in (0, 5, 10, 16) for number in (words >> low & 31).tolist()}
        free = sorted(set(range(19, 29)) - named)
        if free:
            break
    register = world.seed.choice(free)
    _adrp(world, place, target, register)
    world.set_word(last, 0x91000000 | (target & 0xFFF) << 10 | register << 5 | world.seed.randrange(30))
    return last


def _is_room(world: World, vaddr: int) -> bool:
    at = int(np.searchsorted(world.code, np.uint64(vaddr)))
    return at < len(world.code) and int(world.code[at]) == vaddr


def _literal(world: World) -> int:
    """A load from a literal pool in the text, which is within 1 MiB."""
    while True:
        pool = world.pick(world.code) & ~7
        place = pool - 4 * world.seed.randrange(1, 1 << 18)
        if all(_is_room(world, vaddr) for vaddr in (pool, pool + 4, place)):
            break
    world.write(world.offset(pool), struct.pack("<Q", _target(world)))
    world.set_word(place, 0x58000000 | (pool - place >> 2 & 0x7FFFF) << 5 | world.seed.randrange(30))
    return place


MUTATIONS = (
    Mutation(ALL, _pointer, name="a pointer"),
    *(
        Mutation(BOTH, partial(_distance, start=start, stop=stop, size=size), name=name)
        for name, (start, stop, size) in RELATIVE.items()
    ),
    Mutation(BOTH, _adr, name="ADR"),
    Mutation(BOTH, _adrp_add, name="ADRP, ADD"),
    Mutation(BOTH, _adrp_far, name="ADRP, ADD far apart"),
    Mutation(BOTH, _literal, name="a literal"),
)
