"""The one object that everything asks of a running kernel, as drgn's ``Program``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from prologue.elf.image import ElfImage
from prologue.errors import InputError, PrologueError
from prologue.live.memory.base import Memory
from prologue.live.memory.kcore import AskedMemory
from prologue.live.memory.state import KernelState, LoadedModule
from prologue.live.system.module_files import ModuleFile, another_build, open_module
from prologue.live.system.placed_module import PlacedModule
from prologue.live.system.running_kernel import RunningKernel, open_running
from prologue.live.system.running_module import RunningModule

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
