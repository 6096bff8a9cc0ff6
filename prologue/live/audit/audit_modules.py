"""Audits all loaded modules that have files, and says of the others that it did not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from prologue.elf.symbols import Symbols
from prologue.errors import PrologueError
from prologue.live.audit.audit_kernel import KernelFacts
from prologue.live.audit.audit_module import audit_module
from prologue.live.audit.audited import Audited
from prologue.live.audit.exports import global_places
from prologue.live.system.module_files import ModuleFile
from prologue.live.system.module_placer import ModulePlacer, undefined_names
from prologue.live.system.running_module import RunningModule
from prologue.live.system.running_system import RunningSystem


class AuditedModules(NamedTuple):
    """Modules that were judged, why others were not, and what went wrong with some."""

    done: tuple[tuple[str, RunningModule, Audited], ...]
    unlooked: tuple[str, ...]
    errors: tuple[PrologueError, ...]


def audit_modules(system: RunningSystem, facts: KernelFacts) -> AuditedModules:
    """Judge every loaded module of which there is a file."""
    kernel = system.kernel
    chosen: list[ModuleFile] = []
    errors: list[PrologueError] = []
    unlooked: list[str] = []
    for loaded, file, failed in system.open_modules(lambda file: file):
        if file is not None:
            chosen.append(file)
        else:
            errors += failed
            unlooked.append(f"{loaded.name}: all of its text ({failed[0].message if failed else 'no file'})")
    wanted = undefined_names(one.image for one in chosen)
    others = _modules_symbols(chosen, wanted) | global_places(kernel, wanted, kernel.slide)
    done = []
    for one in chosen:
        try:
            placed = ModulePlacer(one.loaded, one.image, others).place()
            module = RunningModule(placed, system.memory, kernel)
            done.append((one.loaded.name, module, audit_module(module, kernel, kernel.slide, facts)))
        except PrologueError as error:
            errors.append(error)
            unlooked.append(f"{one.loaded.name}: all of its text ({error.message})")
    return AuditedModules(tuple(done), tuple(unlooked), tuple(errors))


def _modules_symbols(chosen: Sequence[ModuleFile], wanted: set[str]) -> dict[str, int]:
    """Global symbols that modules define for each other, by name: run-time addresses."""
    return dict(pair for one in chosen for pair in _defined(one, wanted))


def _defined(one: ModuleFile, wanted: set[str]) -> Iterator[tuple[str, int]]:
    symbols = Symbols(one.image)
    places = {s.index: one.loaded.sections[s.name] for s in one.image.sections if s.name in one.loaded.sections}
    for row in range(len(symbols.table)):
        entry = symbols.table[row]
        if entry["info"] >> 4 and int(entry["shndx"]) in places and (name := symbols.name_of(row)) in wanted:
            yield name, places[int(entry["shndx"])] + int(entry["value"])
