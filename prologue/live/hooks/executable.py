"""Executable memory without an owner.

What the page tables let the kernel execute is its own text (the entry trampoline's page has a second address in the
fixmap), text of modules, pages of kprobes, and what BPF has: programs, trampolines, and packs that are filled with
instructions that trap. Nothing of the linear map is executable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.arrays import Bool, runs_of
from prologue.live.hooks.areas import VmapArea
from prologue.live.hooks.contents import unlisted_code
from prologue.live.hooks.inventory import Inventory
from prologue.live.hooks.modules import MODULES_CHANGE
from prologue.live.hooks.owners import Owners
from prologue.live.hooks.page_tables import ExecutablePages, PageTables
from prologue.live.memory.ranges import TOP
from prologue.live.structs.ftrace_lists import read_records
from prologue.live.structs.objects import NotKnownError, NotReadError, Objects
from prologue.live.system.running_kernel import RunningKernel
from prologue.rules.base import Hit
from prologue.words import counted

# Functions of which one is the caller of an area of a module, depending on what the compiler inlines (6.1-7.3).
_LOADERS: Final = ("load_module+", "move_module+", "layout_and_allocate", "module_alloc+", "module_memory_alloc",
                   "execmem_alloc+", "execmem_vmalloc")  # fmt: skip
_PENDING: Final = 1  # WORK_STRUCT_PENDING (include/linux/workqueue.h)
_LIVE: Final = 0  # MODULE_STATE_LIVE
_FREED_BASES: Final = ("mod_initfree.init_text", "mod_initfree.module_init")  # since 6.4, and before


def unowned(inventory: Inventory) -> Iterator[Hit]:
    """Yield each run of executable pages without an owner, and names of BPF for what is none of BPF's.

    Raises:
        NotKnownError: a list of owners cannot be read; or, after the others, that memory may be init text, which is
            about to be freed.

    """
    kernel, objects, owners = inventory.kernel, inventory.objects, inventory.owners
    objects.require_rest(*MODULES_CHANGE)
    tables = PageTables(objects, kernel.memory.info)
    pages = tables.executable()
    if not owners.complete or owners.areas is None or owners.packs is None:
        raise NotKnownError("not all owners of code are known")
    doubtful: list[str] = []
    for name in owners.unheld_names:
        code = f"{name.end - name.start:,} bytes at {name.start:#x} with the name {name.name} in bpf_kallsyms"
        if name.is_program:
            yield Hit(name.start, f"{code} are of no program of BPF")
        else:  # as trampolines of struct_ops whose map was just freed
            doubtful.append(code)
    is_linear = pages.vaddrs < np.uint64(tables.linear_end)
    is_free = is_linear | ~_of_image(kernel, objects, pages)
    free, unlisted = list[int](), 0
    for page, linear in zip(pages.vaddrs[is_free].tolist(), is_linear[is_free].tolist(), strict=True):
        if linear or not owners.owns_page(page, pages.size):
            area = None if linear else owners.memory_of_bpf(page)
            if area is None:
                free.append(page)
            elif isinstance(area, VmapArea) and not any(owners.ranges_in(area.start, area.end)):
                unlisted += pages.size
    leaving: tuple[frozenset[int], str] | None = None
    for run in runs_of(np.array(free, np.uint64), pages.size):
        start, end = int(run[0]), int(run[-1]) + pages.size
        area = next((candidate for candidate in owners.areas if candidate.start <= start < candidate.end), None)
        if area is not None and _may_be_init(objects, owners, area):
            starts, why_open = leaving = leaving or _init_text_leaving(objects)
            if area.start in starts:
                continue
            if why_open:
                doubtful.append(f"{end - start:,} bytes at {start:#x}: {why_open}")
                continue
        yield Hit(start, _message(owners, pages, start, end, area))
    for start, count in _filled_padding(kernel, objects, pages.size):
        message = f"{counted(count, 'byte')} at {start:#x}, after the kernel's text in its last page, are not zeros"
        yield Hit(start, message)
    if doubtful:
        raise NotReadError(f"{', '.join(doubtful)}; or code that hides: read memory again")
    if unlisted:
        raise unlisted_code(inventory, f"{unlisted:,} bytes in areas of BPF")
    if not tables.has_linear:
        raise NotKnownError("the linear map has too many tables to read: not looked at")


def _message(owners: Owners, pages: ExecutablePages, start: int, end: int, area: VmapArea | None) -> str:
    by = f", allocated by {owners.name(area.caller)}" if area is not None and area.caller else ""
    run = (pages.vaddrs >= np.uint64(start)) & (pages.vaddrs < np.uint64(end))
    more = ", some of it writable" if pages.writable[run].any() else ""
    return f"{end - start:,} bytes at {start:#x} are executable{more}{by}, and have no owner"


def _may_be_init(objects: Objects, owners: Owners, area: VmapArea) -> bool:
    """Return whether the loader of modules got the area, and ftrace has no record of a function in it.

    Init text is no module's as soon as init is done. Its records are gone by then (``ftrace_free_mem``), and those of
    other text are not.
    """
    if not area.caller or not owners.name(area.caller).startswith(_LOADERS):
        return False
    try:
        records = read_records(objects)
    except NotKnownError:
        return True
    return not ((records.places >= np.uint64(area.start)) & (records.places < np.uint64(area.end))).any()


def _init_text_leaving(objects: Objects) -> tuple[frozenset[int], str]:
    """Return where areas of init text begin that will be freed, and why others may be freed soon, too (or "").

    ``do_init_module`` puts it on ``init_free_list`` and queues ``init_free_wq``; ``do_free_init`` takes the whole list,
    waits for RCU, and frees (kernel/module/main.c; kernel/module.c in 5.10). Whatever cannot be read leaves it open.
    """
    try:
        path = next((path for path in _FREED_BASES if objects.knows(path)), _FREED_BASES[0])
        entries = objects.hash_entries(objects.place("init_free_list"), "mod_initfree.node")
        starts = frozenset(objects.get(entry, path) for entry in entries)
        work = objects.place("init_free_wq")
        if objects.get(work, "work_struct.data") & _PENDING or _runs(objects, work):
            return starts, "init text of a module that is being freed"
        modules = objects.entries(objects.place("modules"), "module.list")
        if any(objects.get(module, "module.state", 4) != _LIVE for module in modules):
            return starts, "text of a module that is being loaded or unloaded"
    except NotKnownError as error:
        return frozenset(), f"init text of a module that is about to be freed ({error})"
    return starts, ""


def _runs(objects: Objects, work: int) -> bool:
    """Return whether a worker of any pool has the work in hand (kernel/workqueue_internal.h, 5.10-7.3)."""
    pools = objects.place("worker_pool_idr") + objects.offset("idr.idr_rt")
    return any(
        objects.get(worker, "worker.current_work") == work
        for pool in objects.array_entries(pools)
        for worker in objects.entries(pool + objects.offset("worker_pool.workers"), "worker.node")
    )


def _of_image(kernel: RunningKernel, objects: Objects, pages: ExecutablePages) -> Bool:
    """Return which pages are text of the kernel's image, at its own address or another; its padding has zeros only."""
    slide, mask = np.uint64(kernel.slide & TOP), np.uint64(pages.size - 1)
    away = np.uint64((objects.variable("kimage_voffset") - kernel.slide) & TOP)
    linked, alias = pages.vaddrs - slide, pages.paddrs + away
    owned = np.zeros(len(pages.vaddrs), np.bool_)
    for live in kernel.live_text.live.values():
        section = live.section
        first, end = np.uint64(section.addr) & ~mask, np.uint64(section.addr + section.size)
        # Memory that was init text is anybody's by now.
        for places in (linked, alias) if not live.freed else (linked,) if live.present.any() else ():
            owned |= (places >= first) & (places < end)
    low, high = (kernel.symbols.find(name) for name in ("_text", "_etext"))
    if low is not None and high is not None:
        for k in np.flatnonzero(~owned & (linked >= np.uint64(low.vaddr)) & (linked < np.uint64(high.vaddr))).tolist():
            owned[k] = not any(objects.read(int(pages.vaddrs[k]), pages.size))
    return owned


def _filled_padding(kernel: RunningKernel, objects: Objects, size: int) -> Iterator[tuple[int, int]]:
    """Yield address and size of what follows text in its last page, up to the next section, unless it is zeros."""
    starts = [section.addr for section in kernel.image.sections if section.allocated and section.size]
    for live in kernel.live_text.live.values():
        end = live.section.addr + live.section.size
        stop = min([end + -end % size, *(start for start in starts if start >= end)])
        if not live.freed and end < stop and any(objects.read((end + kernel.slide) & TOP, stop - end)):
            yield (end + kernel.slide) & TOP, stop - end
