"""Real kernels as if they had version 2 of the marker, processed: with it, tables of tens of thousands of records.

The marker takes the place of some other object, as in PL402. Such a kernel would not boot; rules do not look at that.
"""

from __future__ import annotations

import struct

import numpy as np

from prologue.kernel.kernel import Kernel
from prologue.kernel.marker import OFFSETS
from prologue.plan.build import build_plan
from tests.mutation.world import World

_NAME = b"__ftrace_prologue_marker"


def plant_marker(world: World, content: bytes) -> int:
    """Give the kernel a marker where some other object was; return its address."""
    section = world.section(".data")
    table = world.original.symbols.table
    inside = (table["value"] >= section.addr) & (table["value"] < section.addr + section.size)
    rows = np.flatnonzero(inside & (table["size"] >= len(content)) & (table["value"] % 8 == 0))
    # A string may name several symbols.
    names, uses = np.unique(table["name"], return_counts=True)
    rows = rows[np.isin(table["name"][rows], names[uses == 1])]
    row = next(r for r in world.seed.sample(rows.tolist(), len(rows)) if len(world.name(r)) > len(_NAME))
    world.rename(row, _NAME + b"\0")
    world.write(world.offset(world.value(row)), content)
    return world.value(row)


def process(world: World) -> Kernel:
    """Plant the marker, and write what the build step would; return the kernel as it is then."""
    plant_marker(world, struct.pack("<8sIIQ4I", b"PROLOGUE", 2, OFFSETS, 0, 0, 0, 0, 0))
    kernel = world.open()
    assert isinstance(kernel, Kernel)
    for stage in build_plan(kernel, "native").stages:
        world.write_words(stage.offsets, stage.new, stage.width)
    processed = world.open()
    assert isinstance(processed, Kernel)
    assert processed.state == "processed"
    return processed
