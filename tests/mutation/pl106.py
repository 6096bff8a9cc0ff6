"""PL106: a record that points where another one points."""

from __future__ import annotations

from tests.mutation.mutation import ALL, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    one, other = world.sites_(2)
    if not world.is_kernel:  # an addend cannot lead from one text section into another
        sections = [world.original.image.section_at(int(world.sites.first[k])) for k in (one, other)]
        while sections[0] != sections[1] or one == other:
            one, other = world.sites_(2)
            sections = [world.original.image.section_at(int(world.sites.first[k])) for k in (one, other)]
    a, b = (int(world.records.values[world.sites.record[k]]) for k in (one, other))
    world.move_record(int(world.sites.record[one]), b - a)
    return int(world.sites.first[other])


MUTATION = Mutation(ALL, mutate)
