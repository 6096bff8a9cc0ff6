"""All loaded modules: what of them was written, and which were not."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from prologue.errors import PrologueError
from prologue.live.overlay.overlay_module import OverlaidModule, overlay_module
from prologue.live.system.module_files import ModuleFile
from prologue.live.system.running_system import RunningSystem


class OverlaidModules(NamedTuple):
    """Modules that were written, names of loaded ones that have no file, and what went wrong with others."""

    written: tuple[OverlaidModule, ...]
    missing: tuple[str, ...]
    errors: tuple[PrologueError, ...]


def overlay_modules(system: RunningSystem, out: Path) -> OverlaidModules:
    """Write every loaded module that has a file to ``out``/NAME.ko."""

    def overlay(file: ModuleFile) -> OverlaidModule:
        return overlay_module(system.read_module(file), out / f"{file.loaded.name}.ko")

    opened = list(system.open_modules(overlay))
    return OverlaidModules(
        written=tuple(module for _, module, _ in opened if module is not None),
        missing=tuple(loaded.name for loaded, module, errors in opened if module is None and not errors),
        errors=tuple(error for _, _, errors in opened for error in errors),
    )
