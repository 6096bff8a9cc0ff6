"""Timers of the wheel whose function nobody owns.

``timer_bases``: kernel/time/timer.c; ``timer_list``: include/linux/timer_types.h (5.10-7.3). ``vectors`` is the last
member of a base.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.live.hooks.inventory import Inventory
from prologue.live.hooks.owners import BPF, KPROBES
from prologue.live.structs.objects import NotKnownError, Objects
from prologue.rules.base import Hit

_MASK: Final = (1 << 64) - 1


def timers(objects: Objects) -> Iterator[tuple[int, int]]:
    """Yield every ``timer_list`` that is pending, and its function; errors as ``Objects.read``."""
    if not objects.has("timer_bases"):
        return
    bases, each = objects.place("timer_bases"), objects.size("timer_base")
    vectors = objects.offset("timer_base.vectors")
    for cpu_offset in objects.slots("__per_cpu_offset")[: objects.variable("nr_cpu_ids", 4)]:
        first = bases + objects.number(cpu_offset) & _MASK
        for base in range(first, first + objects.variables.size("timer_bases"), each):
            heads = np.frombuffer(objects.read(base + vectors, (each - vectors) // 8 * 8), "<u8")
            for k in np.flatnonzero(heads).tolist():
                for timer in objects.hash_entries(base + vectors + 8 * k, "timer_list.entry"):
                    yield timer, objects.get(timer, "timer_list.function")


def timers_without_owner(inventory: Inventory) -> Iterator[Hit]:
    """Yield timers that call code without an owner, or code that only BPF or a kprobe executes; of dumps alone.

    Raises:
        NotKnownError: not all owners are known, or a list cannot be read.

    """
    if not inventory.is_of_one_moment:
        return
    owners = inventory.owners
    if not owners.complete:
        raise NotKnownError("not all owners of code are known")
    for timer, function in timers(inventory.objects):
        owner = owners.of(function)
        if owner is None or owner in (BPF, KPROBES):
            whose = "which has no owner" if owner is None else f"code of {owner}, which no timer calls"
            yield Hit(timer, f"the timer at {timer:#x} calls {owners.name(function)}, {whose}", (function,))
