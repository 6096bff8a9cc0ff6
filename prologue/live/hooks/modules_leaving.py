"""Init text of modules that is about to be freed: no module has it any more, and it is still executable.

``do_init_module`` puts it on ``init_free_list`` and queues ``init_free_wq``; ``do_free_init`` takes the whole list,
waits for RCU, and frees (kernel/module/main.c; kernel/module.c in 5.10). ``worker.current_work``:
kernel/workqueue_internal.h (5.10-7.3).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from prologue.live.structs.objects import NotKnownError, Objects

_PENDING: Final = 1  # WORK_STRUCT_PENDING (include/linux/workqueue.h)
_LIVE: Final = 0  # MODULE_STATE_LIVE
_BASES: Final = ("mod_initfree.init_text", "mod_initfree.module_init")  # since 6.4, and before


class InitText(NamedTuple):
    """Areas on the list by where they begin; ``why_open`` says why others may be freed soon, too, or is empty."""

    starts: frozenset[int]
    why_open: str

    def has(self, start: int) -> bool:
        """Return whether the area that begins there is on the list."""
        return start in self.starts


def init_text_leaving(objects: Objects) -> InitText:
    """Read what will be freed; whatever cannot be read leaves it open."""
    try:
        starts = _listed(objects)
        work = objects.place("init_free_wq")
        if objects.get(work, "work_struct.data") & _PENDING or _runs(objects, work):
            return InitText(starts, "init text of a module that is being freed")
        modules = objects.entries(objects.place("modules"), "module.list")
        if any(objects.get(module, "module.state", 4) != _LIVE for module in modules):
            return InitText(starts, "text of a module that is being loaded or unloaded")
    except NotKnownError as error:
        return InitText(frozenset(), f"init text of a module that is about to be freed ({error})")
    return InitText(starts, "")


def _listed(objects: Objects) -> frozenset[int]:
    path = next((path for path in _BASES if objects.knows(path)), _BASES[0])
    first = objects.place("init_free_list")
    return frozenset(objects.get(entry, path) for entry in objects.hash_entries(first, "mod_initfree.node"))


def _runs(objects: Objects, work: int) -> bool:
    """Return whether a worker of any pool has the work in hand."""
    pools = objects.place("worker_pool_idr") + objects.offset("idr.idr_rt")
    return any(
        objects.get(worker, "worker.current_work") == work
        for pool in objects.array_entries(pools)
        for worker in objects.entries(pool + objects.offset("worker_pool.workers"), "worker.node")
    )
