"""PL101: bounds that are misaligned, the wrong way round, missing, or around no bytes."""

from __future__ import annotations

import struct

from prologue.elf.image import Section
from tests.mutation.mutation import BOTH, Mutation
from tests.mutation.world import World


def mutate(world: World) -> set[int]:
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


def _header(world: World, section: Section, field: int, form: str, value: int) -> None:
    """Change a field of a section header (Elf64_Shdr)."""
    start = struct.unpack_from("<Q", world.memory, 0x28)[0]
    world.write(start + 64 * section.index + field, struct.pack(form, value))


MUTATION = Mutation(BOTH, mutate)
