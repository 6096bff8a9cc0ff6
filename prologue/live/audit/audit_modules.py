"""Audits all loaded modules that have files, and says of the others that it did not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols
from prologue.errors import InputError, PrologueError
from prologue.kernel.load import open_binary
from prologue.live.audit.audit_kernel import KernelFacts
from prologue.live.audit.audit_module import LiveModule, audit_module
from prologue.live.audit.audited import Audited
from prologue.live.audit.exports import global_places
from prologue.live.audit.placing import Placer, wanted_names
from prologue.live.memory.base import Memory
from prologue.live.memory.ranges import UnmappedError
from prologue.live.memory.state import KernelState, LoadedModule
from prologue.live.overlay.overlay_module import placed_by_symbols
from prologue.live.system.running_kernel import RunningKernel

_BUILD_ID = ".note.gnu.build-id"


class ModuleFile(NamedTuple):
    """A loaded module and its file."""

    loaded: LoadedModule
    image: ElfImage


class AuditedModules(NamedTuple):
    """Modules that were judged, why others were not, and what went wrong with some."""

    done: tuple[tuple[str, LiveModule, Audited], ...]
    unlooked: tuple[str, ...]
    errors: tuple[PrologueError, ...]


def audit_modules(
    files: dict[str, list[Path]], state: KernelState, kernel: RunningKernel, facts: KernelFacts
) -> AuditedModules:
    """Judge every loaded module of which there is a file."""
    chosen, errors, unlooked = _choose(files, state, kernel.memory)
    wanted = wanted_names(one.image for one in chosen)
    others = _modules_symbols(chosen, wanted) | global_places(kernel, wanted, kernel.slide)
    done = []
    for one in chosen:
        try:
            placed = Placer(one.loaded, one.image, others).place()
            module = LiveModule(placed, kernel.layout, kernel.memory)
            done.append((one.loaded.name, module, audit_module(module, kernel, kernel.slide, facts)))
        except PrologueError as error:
            errors.append(error)
            unlooked.append(f"{one.loaded.name}: all of its text ({error.message})")
    return AuditedModules(tuple(done), tuple(unlooked), tuple(errors))


def _choose(
    files: dict[str, list[Path]], state: KernelState, memory: Memory
) -> tuple[list[ModuleFile], list[PrologueError], list[str]]:
    chosen: list[ModuleFile] = []
    errors: list[PrologueError] = []
    unlooked: list[str] = []
    for loaded in state.modules:
        failed: list[PrologueError] = []
        for path in files.get(loaded.name, ()):
            try:
                image = open_binary(path, unsigned=True).image
                place = loaded if loaded.sections else placed_by_symbols(loaded, image, state)
                _require_same(place, image, memory)
                chosen.append(ModuleFile(place, image))
                break
            except PrologueError as error:
                failed.append(error)
        else:
            errors += failed
            unlooked.append(f"{loaded.name}: all of its text ({failed[0].message if failed else 'no file'})")
    return chosen, errors, unlooked


def _require_same(loaded: LoadedModule, image: ElfImage, memory: Memory) -> None:
    section, vaddr = image.section(_BUILD_ID), loaded.sections.get(_BUILD_ID)
    if section is None or vaddr is None:
        return
    try:
        live = memory.read(vaddr, section.size)
    except UnmappedError:
        return
    if live != image.data(section):
        raise InputError(f"is not the {loaded.name} that is loaded: another build", path=image.path)


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
