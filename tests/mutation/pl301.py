"""PL301: a site in code that may not be traced."""

from __future__ import annotations

from tests.mutation.mutation import BOTH, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
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


MUTATION = Mutation(BOTH, mutate)
