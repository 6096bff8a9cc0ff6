"""PL205: a kCFI symbol in a kernel with call-ops literals."""

from __future__ import annotations

from tests.mutation.mutation import Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    name = world.seed.choice((b"report_cfi_failure", b"__kcfi_typeid_printk"))
    while True:
        site, row = world.lone_function(len(name))
        if int(world.original.symbols.table["info"][row]) >> 4:  # global, so that find() prefers it
            break
    world.rename(row, name + b"\0")
    return int(world.sites.entry[site]) if name.startswith(b"report") else int(world.sites.entry[0])


MUTATION = Mutation(("6.12",), mutate)
