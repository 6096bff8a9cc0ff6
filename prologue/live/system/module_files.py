"""Finds and opens the files of loaded modules: names, build-ids, and where their sections are."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols
from prologue.errors import InputError
from prologue.kernel.load import find_modules, open_binary
from prologue.live.memory.base import Memory
from prologue.live.memory.reading import read_if_there
from prologue.live.memory.state import KernelState, LoadedModule

_BUILD_ID: Final = ".note.gnu.build-id"


class ModuleFile(NamedTuple):
    """A loaded module and its file without a signature; ``same_build`` if both have one build-id."""

    loaded: LoadedModule
    image: ElfImage
    same_build: bool


def module_files(directory: Path) -> dict[str, list[Path]]:
    """Return the modules below a directory, by the name that the kernel gives them; several may have one name.

    Raises:
        InputError: there is none.

    """
    # Dashes and commas of file names become underscores (scripts/Makefile.lib, "name-fix-token", 6.1-6.12).
    fixed = str.maketrans("-,", "__")
    files: dict[str, list[Path]] = {}
    for path in find_modules(directory):
        files.setdefault(path.name.partition(".ko")[0].translate(fixed), []).append(path)
    return files


def open_module(loaded: LoadedModule, path: Path, memory: Memory, state: KernelState) -> ModuleFile:
    """Open the file of a loaded module.

    Raises:
        InputError: it is no module, or another build's.

    """
    image = open_binary(path, unsigned=True).image
    placed = loaded if loaded.sections else _placed_by_symbols(loaded, image, state)
    return ModuleFile(placed, image, _has_same_build_id(placed, image, memory))


def _has_same_build_id(loaded: LoadedModule, image: ElfImage, memory: Memory) -> bool:
    """Return whether the file and memory have one build-id, False if one of them has none; raise if they have two."""
    section, vaddr = image.section(_BUILD_ID), loaded.sections.get(_BUILD_ID)
    if section is None or vaddr is None:
        return False
    live = read_if_there(memory, vaddr, section.size)
    if live is not None and live != image.data(section):
        raise another_build(loaded, image)
    return live is not None


def another_build(loaded: LoadedModule, image: ElfImage) -> InputError:
    """Return the error of a file that is not the loaded module's."""
    return InputError(f"is not the {loaded.name} that is loaded: another build", path=image.path)


def _placed_by_symbols(loaded: LoadedModule, image: ElfImage, state: KernelState) -> LoadedModule:
    """Find where sections are by the names that kallsyms and the file both have, each once.

    For perf's data, which do not have the addresses of sections.
    """
    symbols = Symbols(image)
    seen: dict[str, set[int]] = {}
    for symbol in state.symbols:
        if symbol.owner == loaded.name:
            seen.setdefault(symbol.name, set()).add(symbol.vaddr)
    starts: dict[str, set[int]] = {}
    for section in image.text_sections:
        rows = np.flatnonzero(symbols.table["shndx"] == section.index)
        for row in rows.tolist():
            name = symbols.name_of(row)
            if len(seen.get(name, ())) == 1:
                (vaddr,) = seen[name]
                starts.setdefault(section.name, set()).add(vaddr - int(symbols.table["value"][row]))
    return loaded._replace(sections={name: places.pop() for name, places in starts.items() if len(places) == 1})
