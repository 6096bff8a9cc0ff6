"""All loaded modules: their files in a directory, and what of them was written."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from prologue.errors import PrologueError
from prologue.kernel.load import find_modules, open_binary
from prologue.live.memory.base import Memory
from prologue.live.memory.state import KernelState
from prologue.live.overlay.overlay_module import OverlaidModule, overlay_module, placed_by_symbols


class OverlaidModules(NamedTuple):
    """Modules that were written, names of loaded ones that have no file, and what went wrong with others."""

    written: tuple[OverlaidModule, ...]
    missing: tuple[str, ...]
    errors: tuple[PrologueError, ...]


def module_files(directory: Path) -> dict[str, list[Path]]:
    """The modules below a directory, by the name that the kernel gives them; several may have one name.

    Raises:
        InputError: there is none.

    """
    # Dashes and commas of file names become underscores (scripts/Makefile.lib, "name-fix-token", 6.1-6.12).
    fixed = str.maketrans("-,", "__")
    found: dict[str, list[Path]] = {}
    for path in find_modules(directory):
        found.setdefault(path.name.partition(".ko")[0].translate(fixed), []).append(path)
    return found


def overlay_modules(files: dict[str, list[Path]], memory: Memory, state: KernelState, out: Path) -> OverlaidModules:
    """Write every module of ``state`` that has a file to ``out``/NAME.ko."""
    written: list[OverlaidModule] = []
    errors: list[PrologueError] = []
    for loaded in state.modules:
        failed = []
        for path in files.get(loaded.name, ()):
            try:
                image = open_binary(path, unsigned=True).image
                place = loaded if loaded.sections else placed_by_symbols(loaded, image, state)
                written.append(overlay_module(place, image, memory, out / f"{loaded.name}.ko"))
                break
            except PrologueError as error:
                failed.append(error)
        else:
            errors += failed
    missing = tuple(loaded.name for loaded in state.modules if loaded.name not in files)
    return OverlaidModules(tuple(written), missing, tuple(errors))
