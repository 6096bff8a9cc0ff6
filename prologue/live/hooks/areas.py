"""Memory of vmalloc: areas, by what allocated them, and packs, in which BPF has its code.

``vmap_nodes`` (6.9-7.3) or ``vmap_area_list``: mm/vmalloc.c; ``pack_list``, ``bpf_prog_pack``: kernel/bpf/core.c
(6.9-7.3 on arm64; before, each program has an area, and only ``bpf_dispatcher`` a pack).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import Bool
from prologue.live.structs.objects import NotReadError, Objects

BPF: Final = "BPF"
"""The owner of its code."""
CHUNK: Final = 64
"""Bytes of a pack for each bit of its bitmap (BPF_PROG_CHUNK_SIZE)."""
_MOST_PACK: Final = 1 << 31  # bytes: 2 MiB for each node of NUMA


class OwnedRange(NamedTuple):
    """Code of one owner, and what it is called; ``kind`` is that of BPF's code: program, filter, trampoline or image.

    What is not ``current`` is of a program or trampoline that comes or goes.
    """

    start: int
    end: int
    owner: str
    name: str = ""
    kind: str = ""
    current: bool = True


class VmapArea(NamedTuple):
    """A vmap area, and the run-time address of what allocated it (0 if that is not said)."""

    start: int
    end: int
    caller: int


class Pack(NamedTuple):
    """A pack: its first byte, the byte after it, and which chunks are in use; shape (bytes / CHUNK,)."""

    start: int
    end: int
    used: Bool

    def uses(self, start: int, end: int) -> bool:
        """Return whether all bytes are in chunks that are in use."""
        first, last = (start - self.start) // CHUNK, (end - 1 - self.start) // CHUNK
        return self.start <= start < end <= self.end and bool(self.used[first : last + 1].all())


def areas(objects: Objects) -> Iterator[VmapArea]:
    """Yield every vmap area in use; errors as ``Objects.read``."""
    if objects.has("vmap_nodes"):
        each, start = objects.size("vmap_node"), objects.variable("vmap_nodes")
        to_root = objects.offset("vmap_node.busy.root")
        for k in range(objects.variable("nr_vmap_nodes", 4)):
            for node in objects.tree_nodes(start + each * k + to_root):
                yield _area(objects, node - objects.offset("vmap_area.rb_node"))
        return
    for entry in objects.entries(objects.place("vmap_area_list"), "vmap_area.list"):
        yield _area(objects, entry)


def _area(objects: Objects, place: int) -> VmapArea:
    start, end = objects.get(place, "vmap_area.va_start"), objects.get(place, "vmap_area.va_end")
    vm = objects.get(place, "vmap_area.vm")
    return VmapArea(start, end, objects.get(vm, "vm_struct.caller") if vm else 0)


def packs(objects: Objects, known: list[VmapArea], page: int) -> Iterator[Pack]:
    """Yield every pack by its area, which ends with a guard page of ``page`` bytes; errors as ``Objects.read``."""
    if not objects.has("pack_list"):
        return
    ends = {area.start: area.end - page for area in known}
    for place in objects.entries(objects.place("pack_list"), "bpf_prog_pack.list"):
        start = objects.get(place, "bpf_prog_pack.ptr")
        if start not in ends:
            raise NotReadError(f"a pack of BPF at {start:#x}, which vmalloc does not have")
        chunks = (ends[start] - start) // CHUNK
        if not 0 < chunks <= _MOST_PACK // CHUNK:
            raise NotReadError(f"a pack of BPF of {chunks * CHUNK:,} bytes at {start:#x}")
        bits = objects.read(place + objects.offset("bpf_prog_pack.bitmap"), -(-chunks // 64) * 8)
        used = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")[:chunks].astype(np.bool_)
        yield Pack(start, ends[start], used)
