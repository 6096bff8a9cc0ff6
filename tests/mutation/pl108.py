"""PL108: a record that is zero."""

from __future__ import annotations

from tests.mutation.mutation import Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    record = int(world.sites.record[world.site()])
    world.move_record(record, -int(world.records.values[record]))
    return int(world.records.vaddrs[record])


MUTATION = Mutation(("6.1",), mutate)
