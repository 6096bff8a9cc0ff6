"""``prologue.open_system``: a kernel that runs or ran."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from prologue.arrays import U32, U64, Bool
from prologue.elf.image import ElfImage
from prologue.errors import Location, UsageError
from prologue.kernel.load import open_judged
from prologue.library.files import File, FileName, path_of
from prologue.library.verifying import rule_names
from prologue.live.audit.outcome import Audit
from prologue.live.audit.run import live_rules
from prologue.live.hooks.run import audit
from prologue.live.memory.base import Memory
from prologue.live.memory.ranges import TOP, Range
from prologue.live.memory.reading import read_until_stable
from prologue.live.memory.sources import open_memory
from prologue.live.system.programs import Program, running_program
from prologue.live.system.running_system import RunningSystem, module_files
from prologue.rules.registry import select_rules

_NEAR: Final = 1 << 12  # bytes: words that are nearer to each other are read at once
_NO_ADDRESS: Final = "an address is a number from 0 to 2^64-1"


class System:
    """A kernel that runs or ran: its vmlinux, its memory, and files of its modules. ``prologue.open_system`` makes one.

    Addresses are those at which it runs: those of its vmlinux plus ``slide`` (bytes).
    """

    def __init__(self, vmlinux: Path, memory: Memory, modules: Path | None = None) -> None:
        """See ``prologue.open_system``."""
        self.vmlinux, self.memory, self.modules = vmlinux, memory, modules
        image = ElfImage(vmlinux)
        if not image.relocatable:
            open_judged(image)
        self._system = RunningSystem(image, memory, None if modules is None else module_files(modules))
        self.program  # noqa: B018 - a vmlinux of another kernel is refused at once

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.vmlinux)!r}, {self.memory.name!r})"

    @cached_property
    def program(self) -> Program:
        """The text that runs, by address, with symbols."""
        return running_program(self._system)

    @property
    def slide(self) -> int:
        """Distance from the link-time to the run-time addresses of the kernel, in bytes."""
        return self.program.kernel.slide

    @property
    def release(self) -> str:
        """The kernel release; empty if memory does not say."""
        return self.memory.info.release

    def words(self, vaddrs: int | Iterable[int] | U64) -> tuple[U32, Bool]:
        """Read instructions from memory, now.

        Args:
            vaddrs: addresses, multiples of 4, in any order: one, or an array of shape (n,).

        Returns:
            The 32-bit word at each address, and whether memory has it; each of shape (n,), (1,) for one address. A word
            that memory does not have is 0. /proc/kcore gives zeros for pages that are not mapped, and has them.

        Raises:
            UsageError: not multiples of 4.
            InputError: memory cannot be read at all.

        """
        places = _addresses(vaddrs)
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        begins = np.flatnonzero(np.diff(ordered, prepend=ordered[:1]) > np.uint64(_NEAR))
        parts = [part for part in np.split(ordered, begins) if len(part)]
        read = read_until_stable(self.memory, [Range(int(part[0]), int(part[-1] - part[0]) + 4) for part in parts])
        words, present = np.zeros(len(places), np.uint32), np.zeros(len(places), np.bool_)
        at = 0
        for part, steady in zip(parts, read, strict=True):
            index = ((part - part[0]) >> np.uint64(2)).astype(np.int64)
            rows = order[at : at + len(part)]
            words[rows], present[rows] = np.frombuffer(steady.data, "<u4")[index], steady.present[index]
            at += len(part)
        return np.where(present, words, np.uint32(0)), present

    def locate(self, vaddr: int) -> Location:
        """Name an address: symbol and offset; a module's symbols have its name added, ``sym [module]``.

        Of modules, text has symbols, and only if ``prologue.open_system`` was given their files.

        Raises:
            UsageError: no number of 64 bits.

        """
        if not 0 <= vaddr <= TOP:
            raise UsageError(_NO_ADDRESS)
        kernel = self.program.kernel
        where = kernel.symbols.locate((vaddr - kernel.slide) & TOP)
        if where.section is not None:
            return replace(where, vaddr=vaddr)
        place = np.array([vaddr], np.uint64)
        is_text = self.program.piece_of(place, place + np.uint64(1))[0] >= 0
        symbol, offset = self.program.place(vaddr) if is_text else ("", 0)
        return Location(vaddr, symbol=symbol or None, symbol_offset=offset)

    def find(self, name: str) -> list[int]:
        """Find the symbols of that name: their addresses, ascending; empty if there is none."""
        return [vaddr for vaddr in self.program.find(name) if self.locate(vaddr).symbol is not None]

    def audit(self, *, select: Iterable[str] = (), ignore: Iterable[str] = (), since: System | None = None) -> Audit:
        """Explain every word of the running text, as ``prologue live audit`` does.

        Args:
            select: codes, slugs or groups of the rules to run; all of running text if empty.
            ignore: those of rules not to run.
            since: the same boot at an earlier time; then ``transitions`` are what changed.

        Returns:
            An ``Audit``: ``passed``, if nothing is wrong and every word was decided; ``findings``; ``undecided`` words;
            ``errors`` of modules that could not be audited; ``notes`` of what was not looked at; ``mismatch`` if memory
            is another kernel's. Addresses in findings are those of the vmlinux.

        Raises:
            InputError: memory cannot be read; or ``since`` is another boot.
            UsageError: a name of no rule, or no rule that is left judges running text.

        """
        rules = live_rules(select_rules(rule_names(select), rule_names(ignore)))
        return audit(self._now(), rules, since=None if since is None else since._now())

    def _now(self) -> RunningSystem:
        """Return the system as it is now: of a running kernel, nothing of it was read yet."""
        return self._system.reread() if self.memory.live else self._system


def open_system(
    vmlinux: File,
    memory: FileName | Memory = "/proc/kcore",
    modules: FileName | None = None,
    *,
    ssh_options: Sequence[str] = (),
) -> System:
    """Open a kernel that runs or ran.

    Args:
        vmlinux: unstripped, of exactly that build.
        memory: "/proc/kcore" (this machine, as root), "ssh:HOST", a capture, perf's data, or a dump.
        modules: a directory with files of its modules; without it, the kernel's own text only.
        ssh_options: words for ssh, such as ("-p", "2222").

    Raises:
        InputError: a file or memory cannot be read, or a module that is loaded; or memory is another kernel's.

    """
    source = open_memory(os.fspath(memory), ssh_options) if isinstance(memory, str | os.PathLike) else memory
    return System(path_of(vmlinux), source, None if modules is None else Path(modules))


def _addresses(vaddrs: int | Iterable[int] | U64) -> U64:
    """Return addresses as an array, shape (n,)."""
    if isinstance(vaddrs, np.ndarray):
        listed = np.atleast_1d(vaddrs)
    else:
        numbers = [vaddrs] if isinstance(vaddrs, int | np.integer) else list(vaddrs)
        if not all(isinstance(number, int | np.integer) and 0 <= number <= TOP for number in numbers):
            raise UsageError(_NO_ADDRESS)
        listed = np.array(numbers, np.uint64)
    if listed.ndim != 1 or listed.dtype != np.uint64 or (listed & np.uint64(3)).any():
        raise UsageError("addresses of instructions are multiples of 4: numbers, or an array of uint64, shape (n,)")
    return listed
