"""Executable memory without an owner.

What the page tables let the kernel execute is its own text (the entry trampoline's page has a second address in the
fixmap), text of modules, pages of kprobes, and what BPF has: programs, trampolines, and packs that are filled with
instructions that trap (``pack_list``, kernel/bpf/core.c, 6.9-7.3 on arm64). ``vmap_nodes`` (6.9-7.3) or
``vmap_area_list`` (mm/vmalloc.c) say how long an area is, and which function allocated it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import Bool, runs_of
from prologue.live.audit.ftrace_lists import all_records
from prologue.live.hooks.inventory import Inventory, Suspect
from prologue.live.hooks.modules import MODULES_CHANGE
from prologue.live.hooks.objects import NotKnownError, NotReadError, Objects
from prologue.live.hooks.owners import Owners
from prologue.live.hooks.page_tables import ExecutablePages, PageTables
from prologue.live.system.running_kernel import RunningKernel
from prologue.words import counted

# Functions of which one is the caller of an area of a module, depending on what the compiler inlines (6.1-7.3).
_LOADERS: Final = ("load_module+", "move_module+", "layout_and_allocate", "module_alloc+", "module_memory_alloc",
                   "execmem_alloc+", "execmem_vmalloc")  # fmt: skip
# 5.10 names the function that called BPF's allocator (arch/arm64/net/bpf_jit_comp.c), 6.1 and later the allocator.
_BPF_ALLOCATORS: Final = ("bpf_jit_alloc_exec+", "bpf_jit_binary_alloc+")
_MASK: Final = (1 << 64) - 1
_MOST_NODES: Final = 1 << 12  # there are twice as many as CPUs at most, and never more than 128 (mm/vmalloc.c)


class VmapArea(NamedTuple):
    """A vmap area, and the run-time address of what allocated it (0 if that is not said)."""

    start: int
    end: int
    caller: int


def areas(objects: Objects) -> Iterator[VmapArea]:
    """Yield every vmap area in use; errors as ``Objects.read``."""
    if objects.has("vmap_nodes"):
        each, start = objects.size("vmap_node"), objects.variable("vmap_nodes")
        to_root = objects.offset("vmap_node.busy.root")
        count = objects.variable("nr_vmap_nodes", 4)
        if count > _MOST_NODES:
            raise NotReadError(f"{count:,} vmap_nodes")
        for k in range(count):
            for node in objects.tree_nodes(start + each * k + to_root):
                yield _area(objects, node - objects.offset("vmap_area.rb_node"))
        return
    for entry in objects.entries(objects.place("vmap_area_list"), "vmap_area.list"):
        yield _area(objects, entry)


def _area(objects: Objects, place: int) -> VmapArea:
    start, end = objects.get(place, "vmap_area.va_start"), objects.get(place, "vmap_area.va_end")
    vm = objects.get(place, "vmap_area.vm")
    return VmapArea(start, end, objects.get(vm, "vm_struct.caller") if vm else 0)


def unowned(inventory: Inventory) -> Iterator[Suspect]:
    """Yield each run of executable pages without an owner.

    Raises:
        NotKnownError: a list of owners cannot be read.

    """
    kernel, objects, owners = inventory.kernel, inventory.objects, inventory.owners
    objects.require_rest(*MODULES_CHANGE)
    pages = PageTables(objects, kernel.memory.info).executable()
    if not owners.complete:
        raise NotKnownError("not all owners of code are known")
    known = list(areas(objects))
    packs = areas_of_bpf(objects, owners, known)
    free = pages.vaddrs[~_of_image(kernel, objects, pages)].tolist()
    free = [
        page for page in free
        if not owners.owns_page(page, pages.size) and not any(pack.start <= page < pack.end for pack in packs)
    ]  # fmt: skip
    doubtful: list[str] = []
    for run in runs_of(np.array(free, np.uint64), pages.size):
        start, end = int(run[0]), int(run[-1]) + pages.size
        area = next((candidate for candidate in known if candidate.start <= start < candidate.end), None)
        if area is not None and _may_be_init(objects, owners, area):
            doubtful.append(f"{end - start:,} bytes at {start:#x}")
            continue
        by = f", allocated by {owners.name(area.caller)}" if area is not None and area.caller else ""
        more = ", some of it writable" if pages.writable[np.isin(pages.vaddrs, run)].any() else ""
        message = f"{end - start:,} bytes at {start:#x} are executable{more}{by}, and have no owner"
        yield Suspect("executable", start, message)
    for start, count in _filled_padding(kernel, objects, pages.size):
        message = f"{counted(count, 'byte')} at {start:#x}, after the kernel's text in its last page, are not zeros"
        yield Suspect("executable", start, message)
    if doubtful:
        raise NotReadError(
            f"{', '.join(doubtful)}: init text of a module that is about to be freed, or code that hides"
        )


def _may_be_init(objects: Objects, owners: Owners, area: VmapArea) -> bool:
    """Return whether the loader of modules got the area, and ftrace has no record of a function in it.

    Init text is no module's as soon as init is done, and freed a moment later, after RCU (``do_free_init``,
    kernel/module/main.c, 6.1-7.3). Its records are gone by then (``ftrace_free_mem``), and those of other text are not.
    """
    if not area.caller or not owners.name(area.caller).startswith(_LOADERS):
        return False
    records = all_records(objects.variables)
    if records is None:
        return True
    return not ((records.places >= np.uint64(area.start)) & (records.places < np.uint64(area.end))).any()


def areas_of_bpf(objects: Objects, owners: Owners, known: list[VmapArea]) -> list[VmapArea]:
    """Return areas that BPF got for code: no list has filters of classic BPF, and kallsyms no users' programs.

    ``bpf_prog_kallsyms_candidate`` and ``bpf_prog_kallsyms_add`` (kernel/bpf/core.c, 5.10-7.3).
    """
    packs = set[int]()
    if objects.has("pack_list"):
        for pack in objects.entries(objects.place("pack_list"), "bpf_prog_pack.list"):
            packs.add(objects.get(pack, "bpf_prog_pack.ptr"))
    return [
        area for area in known
        # Before there are packs, each program has an area.
        if area.start in packs or (area.caller and owners.name(area.caller).startswith(_BPF_ALLOCATORS))
    ]  # fmt: skip


def _of_image(kernel: RunningKernel, objects: Objects, pages: ExecutablePages) -> Bool:
    """Return which pages are text of the kernel's image, at its own address or another; its padding has zeros only."""
    slide, mask = np.uint64(kernel.slide & _MASK), np.uint64(pages.size - 1)
    away = np.uint64((objects.variable("kimage_voffset") - kernel.slide) & _MASK)
    linked, alias = pages.vaddrs - slide, pages.paddrs + away
    owned = np.zeros(len(pages.vaddrs), np.bool_)
    for live in kernel.live_text.live.values():
        section = live.section
        first, end = np.uint64(section.addr) & ~mask, np.uint64(section.addr + section.size)
        # Memory that was init text is anybody's by now.
        for places in (linked, alias) if not live.freed else (linked,) if live.there.any() else ():
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
        if not live.freed and end < stop and any(objects.read((end + kernel.slide) & _MASK, stop - end)):
            yield (end + kernel.slide) & _MASK, stop - end
