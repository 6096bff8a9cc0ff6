"""The table of kprobes in memory (``kprobe_table``, kernel/kprobes.c, 5.10-7.3)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.live.memory.ranges import PAGE
from prologue.live.structs.objects import Objects


def kprobes_on_table(objects: Objects) -> Iterator[int]:
    """Yield every ``struct kprobe`` that has a place of its own; errors as ``Objects.read``."""
    buckets = objects.slots("kprobe_table")
    heads = np.frombuffer(objects.read(buckets.start, 8 * len(buckets)), "<u8")
    objects.variables.fetch({head // PAGE for head in heads[heads != 0].tolist()})  # with one question
    for bucket in buckets:
        yield from objects.hash_entries(bucket, "kprobe.hlist")
