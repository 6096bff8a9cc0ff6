"""PL403: one bit anywhere."""

from __future__ import annotations

from tests.mutation.mutation import ALL, NONE, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    """One byte anywhere in the file, but not in its headers, which would make it unreadable."""
    sections = [s for s in world.original.image.sections if s.has_bytes and s.size > 64]
    section = world.seed.choice(sections)
    while section.name in (".strtab", ".shstrtab", ".symtab", ".relr.dyn") or section.type == "SHT_RELA":
        section = world.seed.choice(sections)
    at = world.seed.randrange(section.size)
    world.write(section.offset + at, bytes([world.memory[section.offset + at] ^ 1 << world.seed.randrange(8)]))
    return section.addr + at if section.allocated else NONE


MUTATION = Mutation(ALL, mutate)
