"""PL301: a site in code that may not be traced."""

from __future__ import annotations

import numpy as np

from prologue.insn import a64
from prologue.rules.pl301_site_in_untraceable_code import TRACERS
from tests.mutation.mutation import BOTH, Mutation
from tests.mutation.world import World

# 6.1 traces the first two on purpose.
SECTIONS = ("__kprobes_text", "__cpuidle_text", "__noinstr_text")


def _rename(world: World) -> int:
    """A name that only untraced code has."""
    prefix = world.seed.choice((b"__pi_", b"__kvm_nvhe_", b"__efistub_"))
    site, row = world.lone_function(len(prefix) + 1)
    world.rename(row, prefix)
    return int(world.sites.entry[site])


def _move_bounds(world: World) -> int:
    """A section that is said to begin and end around a site."""
    bounds = [("__idmap_text_start", "__idmap_text_end"), ("__entry_text_start", "__entry_text_end")]
    low, high = world.seed.choice([b for b in bounds if world.original.symbols.find(b[0])])
    entry = int(world.sites.entry[world.site()])
    for name, value in ((low, entry), (high, entry + 8)):
        world.set_symbol(_row(world, name), value=value)
    return entry


def _row(world: World, name: str) -> int:
    return next(row for row in world.rows_of(name) if world.name(row) == name)


def _move_record(world: World) -> int:
    """Make a function of such a section traced: the NOPs, and some other function's record."""
    symbols = world.original.symbols
    name = world.seed.choice(SECTIONS if world.sites.layout == "4,2" else SECTIONS[2:])
    low, high = symbols.find(f"{name}_start"), symbols.find(f"{name}_end")
    assert low is not None
    assert high is not None
    starts = symbols.function_starts
    inside = starts[(starts >= low.vaddr) & (starts < high.vaddr) & (starts % np.uint64(8) == 0)]
    place = world.pick(inside)
    for distance in (-8, -4, 0, 4) if world.sites.layout == "4,2" else (0, 4):
        world.set_word(place + distance, a64.NOP)
    site = world.site()
    record = int(world.sites.record[site])
    prefix = 8 if world.sites.layout == "4,2" else 0
    world.move_record(record, place - prefix - int(world.records.values[record]))
    return place


def _move_tracer(world: World) -> int:
    """Let one of ftrace's own functions be where a traced one is."""
    site, _ = world.lone_function()
    name = world.seed.choice([name for name in TRACERS if world.original.symbols.find(name)])
    entry = int(world.sites.entry[site])
    world.set_symbol(_row(world, name), value=entry)
    return entry


MUTATIONS = (
    Mutation(BOTH, _rename, name="a name"),
    Mutation(BOTH, _move_bounds, name="bounds of a section"),
    Mutation(BOTH, _move_record, name="a record in a section"),
    Mutation(BOTH, _move_tracer, name="a function of ftrace's own"),
)
