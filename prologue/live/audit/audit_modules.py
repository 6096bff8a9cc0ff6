"""The audit of all loaded modules that have files, with what each wants of others; modules without are named.

The loader searches the tables of exported symbols by name: ``find_symbol`` (kernel/module.c, 5.10;
kernel/module/main.c, 6.1-7.3) goes through ``__ksymtab``, then ``__ksymtab_gpl`` if there is one. A name may be
exported twice: Debian's 5.10 has ``memset`` of the kernel and of nVHE, and modules get the one on which the binary
search comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from prologue.elf.symbols import SHN_UNDEF, Symbols
from prologue.errors import InputError, PrologueError, UndecidedError
from prologue.kernel.kernel import Kernel
from prologue.live.audit.audit_kernel import KernelFacts
from prologue.live.audit.audit_module import audit_module
from prologue.live.audit.audited import Audited
from prologue.live.system.placed_module import PERCPU, PlacedModule, undefined_names
from prologue.live.system.running_module import RunningModule
from prologue.live.system.running_system import ModuleFile, RunningSystem, another_build

_STRUCT: Final = ".gnu.linkonce.this_module"
_NO_TABLES: Final = "memory does not say where its tables are, and so which words may change: take a capture"
_NO_SECTIONS: Final = (
    "the kernel lists it and does not say where its text is, as of one that is being loaded or unloaded: audit again"
)


def audit_modules(
    system: RunningSystem, facts: KernelFacts
) -> tuple[list[tuple[str, RunningModule, Audited]], list[str], list[PrologueError]]:
    """Judge every loaded module that has a file; return those, notes on the others, and errors."""
    kernel = system.kernel
    chosen: list[ModuleFile] = []
    errors: list[PrologueError] = []
    unlooked: list[str] = []
    for loaded, file, failed in system.open_modules(lambda file: file):
        has_text = file is not None and any(text.name in loaded.sections for text in file.image.text_sections)
        if file is not None and has_text:
            chosen.append(file)
            continue
        if file is not None:
            # In perf's data only text has a place, by its names.
            has_places, path = any(module.sections for module in system.state.modules), file.image.path
            failed.append(UndecidedError(_NO_SECTIONS, path=path) if has_places else InputError(_NO_TABLES, path=path))
        errors += failed
        unlooked.append(f"{loaded.name}: all of its text ({failed[0].message if failed else 'no file'})")
    chosen = [_with_percpu(file, facts) for file in chosen]
    others = symbols_of_others(kernel, kernel.slide, chosen, undefined_names(file.image for file in chosen))
    done = []
    for file in chosen:
        try:
            placed = PlacedModule(file.loaded, file.image, others)
            module = RunningModule(placed, system.memory, kernel)
            if not file.same_build and module.is_other_text():
                raise another_build(file.loaded, file.image)
            done.append((file.loaded.name, module, audit_module(module, facts)))
        except PrologueError as error:
            errors.append(error)
            unlooked.append(f"{file.loaded.name}: all of its text ({error.message})")
    return done, unlooked, errors


def _with_percpu(file: ModuleFile, facts: KernelFacts) -> ModuleFile:
    """Return a module with the place of its data of each CPU, for relocations of it and of others.

    sysfs leaves the section out; ``struct module`` has it.
    """
    offset, struct = facts.variables.layouts.get("module.percpu"), file.loaded.sections.get(_STRUCT)
    percpu = None if offset is None or struct is None else facts.variables.quad(struct + offset)
    sections = file.loaded.sections | ({PERCPU: percpu} if percpu else {})
    return file._replace(loaded=file.loaded._replace(sections=sections))


# Bounding symbols; struct kernel_symbol: s32 value, name and namespace, each relative to itself (5.10-7.3, with
# CONFIG_HAVE_ARCH_PREL32_RELOCATIONS).
_TABLES: Final = (("__start___ksymtab", "__stop___ksymtab"), ("__start___ksymtab_gpl", "__stop___ksymtab_gpl"))
_ENTRY_SIZE: Final = 12
_ENTRY: Final = "__ksymtab_"  # of an exported symbol's entry in a module, before its name


def symbols_of_others(kernel: Kernel, slide: int, files: Sequence[ModuleFile], wanted: set[str]) -> dict[str, int]:
    """Return the run-time addresses of symbols that modules want from others, by name.

    Of one name it is the kernel's export, otherwise a module's, otherwise another global symbol, of the kernel's first.
    """
    defined: dict[str, int] = {}
    exported: dict[str, int] = {}
    for file in files:
        symbols = Symbols(file.image)
        names = [symbols.name_of(row) for row in range(len(symbols.table))]
        entries = {name.removeprefix(_ENTRY) for name in names if name.startswith(_ENTRY)}
        places = {s.index: file.loaded.sections[s.name] for s in file.image.sections if s.name in file.loaded.sections}
        for name, entry in zip(names, symbols.table, strict=True):
            if entry["info"] >> 4 and int(entry["shndx"]) in places and name in wanted:
                defined[name] = places[int(entry["shndx"])] + int(entry["value"])
                exported |= {name: defined[name]} if name in entries else {}
    symbols, tables = kernel.symbols, [_read(kernel, low, high) for low, high in _TABLES]
    rows = np.flatnonzero((symbols.table["info"] >> 4 != 0) & (symbols.table["shndx"] != SHN_UNDEF))
    plain = {name: int(symbols.values[row]) for row in rows.tolist() if (name := symbols.name_of(row)) in wanted}
    ksyms = {name: vaddr for name in wanted if (vaddr := _find(tables, name.encode())) is not None}
    plain, ksyms = ({name: vaddr + slide & (1 << 64) - 1 for name, vaddr in each.items()} for each in (plain, ksyms))
    return defined | plain | exported | ksyms


def _read(kernel: Kernel, low: str, high: str) -> tuple[list[bytes], list[int]]:
    """Read names and values of a table; none if it is not there, or if its names cannot be read."""
    start, stop = kernel.symbols.find(low), kernel.symbols.find(high)
    if start is None or stop is None or stop.vaddr - start.vaddr < _ENTRY_SIZE:
        return [], []
    count = (stop.vaddr - start.vaddr) // _ENTRY_SIZE
    fields = np.uint64(start.vaddr) + np.arange(count, dtype=np.uint64) * np.uint64(_ENTRY_SIZE)
    at = kernel.relative32(fields + np.uint64(4))
    strings = kernel.image.section_at(int(at[0]))
    if strings is None or not strings.has_bytes:
        return [], []
    data, offsets = bytes(kernel.image.data(strings)), (at - np.uint64(strings.addr)).tolist()
    if max(offsets) >= len(data):
        return [], []
    return [data[k : data.find(b"\0", k)] for k in offsets], kernel.relative32(fields).tolist()


def _find(tables: Sequence[tuple[list[bytes], list[int]]], key: bytes) -> int | None:
    """Return the link-time address that a module gets for a name; None if the kernel does not export it.

    ``bsearch`` (include/linux/bsearch.h) does not always end at the first of equal names.
    """
    for names, values in tables:
        base, count = 0, len(names)
        while count > 0:
            pivot = base + (count >> 1)
            if names[pivot] == key:
                return values[pivot]
            if key > names[pivot]:
                base, count = pivot + 1, count - 1
            count >>= 1
    return None
