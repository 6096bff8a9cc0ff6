"""The audit of all loaded modules that have files; the others are named as not looked at."""

from __future__ import annotations

from typing import Final, NamedTuple

from prologue.errors import InputError, PrologueError, UndecidedError
from prologue.live.audit.audit_kernel import KernelFacts
from prologue.live.audit.audit_module import audit_module
from prologue.live.audit.audited import Audited
from prologue.live.audit.exports import symbols_of_others
from prologue.live.system.module_files import ModuleFile, another_build
from prologue.live.system.placed_module import PERCPU, PlacedModule, undefined_names
from prologue.live.system.running_module import RunningModule
from prologue.live.system.running_system import RunningSystem

_STRUCT: Final = ".gnu.linkonce.this_module"
_NO_TABLES: Final = "memory does not say where its tables are, and so which words may change: take a capture"
_NO_SECTIONS: Final = (
    "the kernel lists it and does not say where its text is, as of one that is being loaded or unloaded: audit again"
)


class AuditedModules(NamedTuple):
    """Modules that were judged, notes on those that were not, and errors."""

    done: tuple[tuple[str, RunningModule, Audited], ...]
    unlooked: tuple[str, ...]
    errors: tuple[PrologueError, ...]


def audit_modules(system: RunningSystem, facts: KernelFacts) -> AuditedModules:
    """Judge every loaded module that has a file."""
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
    return AuditedModules(tuple(done), tuple(unlooked), tuple(errors))


def _with_percpu(file: ModuleFile, facts: KernelFacts) -> ModuleFile:
    """Return a module with the place of its data of each CPU, for relocations of it and of others.

    sysfs leaves the section out; ``struct module`` has it.
    """
    offset, struct = facts.variables.layouts.get("module.percpu"), file.loaded.sections.get(_STRUCT)
    percpu = None if offset is None or struct is None else facts.variables.quad(struct + offset)
    sections = file.loaded.sections | ({PERCPU: percpu} if percpu else {})
    return file._replace(loaded=file.loaded._replace(sections=sections))
