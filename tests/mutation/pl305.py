"""PL305: an entry of another patcher's table that names a site."""

from __future__ import annotations

import struct
from functools import partial

import numpy as np

from prologue.kernel import tables
from tests.mutation.mutation import BOTH, Mutation
from tests.mutation.world import World

TABLES = {"an alternative": (".altinstructions", 0), "an exception": ("__ex_table", 0), "a fixup": ("__ex_table", 4)}
TABLES |= {"a BUG": ("__bug_table", 0)}


def _aim(world: World, field: int, place: int, back: int = 0) -> int:
    """Let a field that holds a distance lead to a place, or so many bytes before it."""
    world.write(world.offset(field), struct.pack("<i", place - back - field))
    return place


def _slot(world: World) -> int:
    """Either word of some site."""
    return int(world.seed.choice((world.sites.first, world.sites.second))[world.site()])


def _entry(world: World, section: str, offset: int) -> int:
    """An entry of 12 bytes."""
    found = world.section(section)
    return _aim(world, found.addr + 12 * world.seed.randrange(found.size // 12) + offset, _slot(world))


def _label(world: World) -> int:
    return _aim(world, world.pick(tables.jump_labels(world.original).entries), _slot(world))


def _label_target(world: World) -> int:
    field = world.pick(tables.jump_labels(world.original).entries) + 4
    return _aim(world, field, int(world.sites.second[world.site()]))


def _blacklist(world: World) -> int:
    second = int(world.sites.second[world.site()])
    start = world.original.symbols.find("__start_kprobe_blacklist")
    assert start is not None
    slot = start.vaddr + 8 * world.pick(np.flatnonzero(tables.kprobe_blacklist(world.original)))
    world.write(world.pointer_at(slot), struct.pack("<Q", second))  # kernels with RELR have some in RELA
    return second


def _constant(world: World, prefix: str, count: int) -> int:
    """One of the words that a runtime constant has."""
    sections = [section for section in world.original.image.sections if section.name.startswith(prefix)]
    section = world.seed.choice(sections)
    field = section.addr + 4 * world.seed.randrange(section.size // 4)
    return _aim(world, field, _slot(world), 4 * world.seed.randrange(count))


MUTATIONS = (
    Mutation(BOTH, _label, name="a jump label"),
    Mutation(BOTH, _label_target, name="a jump label's target"),
    *(
        Mutation(BOTH, partial(_entry, section=section, offset=offset), name=name)
        for name, (section, offset) in TABLES.items()
    ),
    Mutation(BOTH, _blacklist, name="the kprobe blacklist"),
    Mutation(("6.12",), partial(_constant, prefix="runtime_ptr_", count=4), name="a runtime pointer"),
    Mutation(("6.12",), partial(_constant, prefix="runtime_shift_", count=1), name="a runtime shift"),
)
