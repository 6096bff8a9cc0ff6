"""The one object that everything asks of a running kernel, as drgn's ``Program``; and files of its modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import numpy as np

from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols
from prologue.errors import InputError, PrologueError
from prologue.kernel.load import find_modules, open_binary
from prologue.live.memory.base import Memory
from prologue.live.memory.kcore import AskedMemory
from prologue.live.memory.reading import read_if_there
from prologue.live.memory.state import KernelState, LoadedModule
from prologue.live.system.placed_module import PlacedModule
from prologue.live.system.running_kernel import RunningKernel, open_running
from prologue.live.system.running_module import RunningModule

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


_T = TypeVar("_T")


class RunningSystem:
    """A kernel that runs or ran: its vmlinux, its memory, and the files of its modules by their names.

    Memory is read when the kernel, its state or a module is first asked for.
    """

    def __init__(self, vmlinux: Path | ElfImage, memory: Memory, files: dict[str, list[Path]] | None = None) -> None:
        """Open the vmlinux; of one that is open, the first use says whether it is the kernel's in memory.

        Raises:
            AnotherKernelError: it has another build-id than the kernel in memory.
            InputError: it is a module, or no vmlinux at all.

        """
        self.image = vmlinux if isinstance(vmlinux, ElfImage) else open_running(vmlinux, memory)
        self.memory, self.files = memory, files

    def reread(self) -> RunningSystem:
        """Return the same system, of which nothing was read yet, and which was not asked for its state."""
        if isinstance(self.memory, AskedMemory):
            self.memory.forget_state()
        return RunningSystem(self.image, self.memory, self.files)

    @cached_property
    def kernel(self) -> RunningKernel:
        """The kernel with the text that memory has; errors as ``RunningKernel``."""
        return RunningKernel(self.image, self.memory)

    @cached_property
    def state(self) -> KernelState:
        """State that the kernel reports: its modules, symbols and kprobes.

        Raises:
            InputError: memory does not say it.

        """
        return self.memory.state(self.image.path)

    def state_without_dwarf(self) -> KernelState | None:
        """Return the state without a look into DWARF; None if memory, as a dump does, has none without it."""
        with suppress(InputError):
            return self.memory.state()
        return None

    def open_modules(
        self, use: Callable[[ModuleFile], _T]
    ) -> Iterator[tuple[LoadedModule, _T | None, list[PrologueError]]]:
        """Open the first file of each loaded module that is of its build and that ``use`` accepts.

        Yields:
            The module, what ``use`` returned, and errors; None and no errors if there is no file.

        """
        for loaded in self.state.modules:
            errors: list[PrologueError] = []
            for path in (self.files or {}).get(loaded.name, ()):
                try:
                    yield loaded, use(open_module(loaded, path, self.memory, self.state)), []
                    break
                except PrologueError as error:
                    errors.append(error)
            else:
                yield loaded, None, errors

    def read_module(self, file: ModuleFile) -> RunningModule:
        """Read the text of a module, placed with its DWARF; symbols of others are not looked up.

        Raises:
            InputError: the file is damaged or another build's, or memory does not have the module's text.

        """
        placed = PlacedModule(file.loaded, file.image, {}, for_debuggers=True)
        module = RunningModule(placed, self.memory, self.kernel)
        if not file.same_build and module.is_other_text():
            raise another_build(file.loaded, file.image)
        return module
