"""Owners of code by run-time address: the kernel, a listed module, BPF, or pages of kprobes; and its name.

Code is BPF's if a struct that BPF's lists lead to holds it, and if BPF got the memory. ``kprobe_insn_slots``:
kernel/kprobes.c (5.10-7.3).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from prologue.live.hooks.areas import OwnedRange, Pack, VmapArea, areas, packs
from prologue.live.hooks.bpf_code import (
    BpfName,
    bpf_names,
    code_in_change,
    code_of_bpf,
    code_of_filter,
    filters,
)
from prologue.live.hooks.modules import ListedModule, symbols_of
from prologue.live.memory.ranges import TOP
from prologue.live.structs.objects import NotKnown, NotKnownError, Objects, noted
from prologue.live.system.running_kernel import RunningKernel
from prologue.words import at_offset

KERNEL: Final = "kernel"
KPROBES: Final = "kprobes"
# 5.10 names the function that called BPF's allocator (arch/arm64/net/bpf_jit_comp.c), 6.1 and later the allocator. A
# trampoline's image stays when 5.10 finds that arm64 has no trampolines (``bpf_trampoline_update``).
_BPF_ALLOCATORS: Final = ("bpf_jit_alloc_exec+", "bpf_jit_binary_alloc+", "bpf_trampoline_update+")
# What allocates for a program that is longer than a pack since 6.10: bpf_jit_alloc_exec is a tail call.
_OF_LONG_PROGRAMS: Final = (*_BPF_ALLOCATORS, "execmem_alloc+", "execmem_vmalloc", "bpf_prog_pack_alloc+")


class Owners:
    """Owners of a system's code.

    ``complete`` if every list of code could be read; otherwise ``not_known`` says which could not, and an address
    without an owner may have one. ``filter_errors`` say which tasks were not asked for their filters of classic BPF.
    ``areas`` and ``packs`` are None if they cannot be read. ``unheld_names`` are names of ``bpf_kallsyms`` that no
    struct of BPF holds.
    """

    def __init__(self, kernel: RunningKernel, objects: Objects, modules: tuple[ListedModule, ...] | None) -> None:
        """Read the lists of code; ``modules`` are those that are listed, None if that list cannot be read."""
        self._kernel, self._objects, self.modules = kernel, objects, modules or ()
        self.not_known: list[NotKnown] = []
        self.complete = self.lists_modules = modules is not None
        self.page = kernel.memory.info.numbers.get("PAGESIZE", 1 << 12)
        self._names: dict[int, str] = {}
        self._symbols: dict[int, tuple[list[int], list[str], list[int]]] = {}
        self.unheld_names: list[BpfName] = []
        self._ranges = sorted(
            OwnedRange(part.start, part.stop, f"module {module.name}")
            for module in self.modules
            for part in module.text
        )
        self._index()
        self.areas: list[VmapArea] | None = None
        self.packs: list[Pack] | None = None
        with noted(self.not_known, "areas of vmalloc"):
            self.areas = list(areas(objects))
            self.packs = list(packs(objects, self.areas, self.page))
        self._names_of_bpf: dict[int, BpfName] = {}
        of_bpf = self._try("BPF code", self._of_bpf)
        self.filter_errors: list[NotKnownError] = []
        of_filters = self._of_filters({part.start for part in of_bpf})
        of_kprobes = self._try("pages of kprobes", self._of_kprobes)
        self._ranges = sorted([*self._ranges, *of_bpf, *of_filters, *of_kprobes])
        self._index()

    def _try(self, what: str, read: Callable[[], Iterator[OwnedRange]]) -> list[OwnedRange]:
        with noted(self.not_known, what):
            return list(read())
        self.complete = False
        return []

    def _index(self) -> None:
        self._starts = [part.start for part in self._ranges]

    def _of_bpf(self) -> Iterator[OwnedRange]:
        """Yield what structs of BPF hold in memory that is BPF's; keep names that none of them holds."""
        names = bpf_names(self._objects)
        self._names_of_bpf = {name.start: name for name in names}
        held = [code for code in code_of_bpf(self._objects, self.page) if self._is_in_memory_of_bpf(code)]
        covered = sorted((code.start, code.end) for code in held)
        starts = [start for start, _ in covered]
        for name in names:
            at = bisect_right(starts, name.start) - 1
            if at >= 0 and name.start < covered[at][1]:
                continue
            code = code_in_change(self._objects, name, self.page)
            if code is not None and self._is_in_memory_of_bpf(code):
                held.append(code)
            else:
                self.unheld_names.append(name)
        for code in held:
            named = self._names_of_bpf.get(code.start)
            yield code if named is None else code._replace(name=named.name)

    def _of_filters(self, known: set[int]) -> list[OwnedRange]:
        """Return the code of filters of tasks and sockets, except programs, which are ``known``."""
        codes: dict[int, OwnedRange] = {}
        programs = set[int]()
        try:
            programs.update(filters(self._objects, self.filter_errors.append))
        except NotKnownError as error:
            self.filter_errors.append(error)
        for program in sorted(programs - {0}):
            try:
                code = code_of_filter(self._objects, program)
            except NotKnownError as error:
                self.filter_errors.append(error)
                continue
            if code.start < code.end and code.start not in known and self._is_in_memory_of_bpf(code):
                codes[code.start] = code
        return list(codes.values())

    def _is_in_memory_of_bpf(self, code: OwnedRange) -> bool:
        """Return whether BPF got the memory, as far as that is known; a struct may say that any memory is code."""
        if self.part(code.start) is not None or self._is_kernel_text(code.start):
            return False
        if self.packs is None or self.areas is None:
            return True
        if any(pack.start <= code.start < pack.end for pack in self.packs):
            return any(pack.uses(code.start, code.end) for pack in self.packs)
        return any(area.start <= code.start < code.end <= area.end and self._is_area_of_bpf(area, long=True)
                   for area in self.areas)  # fmt: skip

    def _is_area_of_bpf(self, area: VmapArea, *, long: bool = False) -> bool:
        """Return whether BPF allocated an area by its caller, also one for a ``long`` program; not one of a pack."""
        allocators = _OF_LONG_PROGRAMS if long else _BPF_ALLOCATORS
        return bool(area.caller) and self.name(area.caller).startswith(allocators)

    def memory_of_bpf(self, vaddr: int) -> Pack | VmapArea | None:
        """Return the pack or area that BPF got for an address; None if it got none."""
        packs = (pack for pack in self.packs or () if pack.start <= vaddr < pack.end)
        areas = (area for area in self.areas or () if area.start <= vaddr < area.end and self._is_area_of_bpf(area))
        return next(packs, None) or next(areas, None)

    def _of_kprobes(self) -> Iterator[OwnedRange]:
        """Yield pages with the copies of instructions that kprobes stand on."""
        objects = self._objects
        if not objects.has("kprobe_insn_slots"):
            return
        head = objects.place("kprobe_insn_slots") + objects.offset("kprobe_insn_cache.pages")
        for page in objects.entries(head, "kprobe_insn_page.list"):
            start = objects.get(page, "kprobe_insn_page.insns")
            yield OwnedRange(start, start + self.page, KPROBES)

    def of(self, vaddr: int) -> str | None:
        """Name the owner of the code there; None if it has none."""
        if self._is_kernel_text(vaddr):
            return KERNEL
        part = self.part(vaddr)
        return None if part is None else part.owner

    def owns_page(self, vaddr: int, size: int) -> bool:
        """Return whether any byte of a page belongs to code of an owner other than the kernel."""
        at = bisect_right(self._starts, vaddr + size - 1) - 1
        return at >= 0 and self._ranges[at].end > vaddr

    def part(self, vaddr: int) -> OwnedRange | None:
        """Return the code there of an owner other than the kernel; None if there is none."""
        at = bisect_right(self._starts, vaddr) - 1
        return self._ranges[at] if at >= 0 and vaddr < self._ranges[at].end else None

    def ranges_in(self, start: int, end: int) -> Iterator[OwnedRange]:
        """Yield the code of owners other than the kernel that begins there, ascending."""
        yield from self._ranges[bisect_left(self._starts, start) : bisect_left(self._starts, end)]

    def _is_kernel_text(self, vaddr: int) -> bool:
        linked = vaddr - self._kernel.slide & TOP
        return bool(self._kernel.live_text.in_kept_text(np.array([linked], np.uint64))[0])

    def name(self, vaddr: int) -> str:
        """Return symbol+offset, with the module's or owner's name after it; the address in hex if nothing names it."""
        if vaddr not in self._names:
            self._names[vaddr] = self._name(vaddr)
        return self._names[vaddr]

    def _name(self, vaddr: int) -> str:
        linked = vaddr - self._kernel.slide & TOP
        where = self._kernel.symbols.locate(linked)
        if where.symbol is not None and self._is_in_image(linked):
            return at_offset(where.symbol, where.symbol_offset)
        part = self.part(vaddr)
        if part is not None and part.name:
            return f"{at_offset(part.name, vaddr - part.start)} [{part.owner.lower()}]"
        if part is None and vaddr in self._names_of_bpf:
            return f"{self._names_of_bpf[vaddr].name} [a name of bpf]"
        for module in self.modules:
            memory = next((piece for piece in module.memory if vaddr in piece), None)
            if memory is not None:
                places, names, _ = self._symbols_of(module)
                at = bisect_right(places, vaddr) - 1
                known = at >= 0 and places[at] in memory and names[at]
                return f"{at_offset(names[at], vaddr - places[at]) if known else f'{vaddr:#x}'} [{module.name}]"
        return f"{vaddr:#x}"

    def start_of(self, vaddr: int) -> int:
        """Return the first byte of the function there, by its symbol; the address itself if nothing names it."""
        linked = vaddr - self._kernel.slide & TOP
        where = self._kernel.symbols.locate(linked)
        if where.symbol is not None and self._is_in_image(linked):
            return vaddr - where.symbol_offset
        module = next((module for module in self.modules if any(vaddr in part for part in module.text)), None)
        if module is None:
            return vaddr
        places, _, _ = self._symbols_of(module)
        at = bisect_right(places, vaddr) - 1
        return places[at] if at >= 0 and any(places[at] in part for part in module.text) else vaddr

    def _is_in_image(self, linked: int) -> bool:
        return self._kernel.image.section_at(linked) is not None

    def is_inside_function(self, vaddr: int) -> bool:
        """Return whether a function of the kernel or a module began before, and goes on there, by its symbol's size."""
        start = self.start_of(vaddr)
        return start != vaddr and vaddr < start + self._size_at(start)

    def _size_at(self, start: int) -> int:
        module = next((module for module in self.modules if module.has(start)), None)
        if module is None:
            function = self._kernel.symbols.function_at(start - self._kernel.slide & TOP)
            return 0 if function is None else function.size
        places, _, sizes = self._symbols_of(module)
        return max((sizes[at] for at in range(bisect_left(places, start), bisect_right(places, start))), default=0)

    def _symbols_of(self, module: ListedModule) -> tuple[list[int], list[str], list[int]]:
        if module.place not in self._symbols:
            symbols = sorted(symbols_of(self._objects, module))
            self._symbols[module.place] = (
                [vaddr for vaddr, _, _ in symbols], [name for _, name, _ in symbols], [size for _, _, size in symbols],
            )  # fmt: skip
        return self._symbols[module.place]
