"""The kernel of each range, by the program that perf names, or by exception level and VMID; never by a guess.

Under VHE a host kernel runs at EL2 and its guests' kernels at EL1; an nVHE host runs at EL1 like its guests, and only
the VMID (0 for the host: ``__load_host_stage2``, arch/arm64/include/asm/kvm_mmu.h, 6.1-6.12) tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import I64
from prologue.errors import InputError
from prologue.live.memory.ranges import KERNEL_HALF
from prologue.live.system.programs import Program
from prologue.trace.path.processes import Processes
from prologue.trace.ranges import AARCH32, NO_LEVEL, NO_VMID, OTHER_WORLD, Batch
from prologue.words import meant

USER, UNDECIDED, WORLD = -1, -2, -3
"""Not a program's row: no kernel; a kernel of which the trace does not say which; Secure, Realm or Root state."""
_HOST, _GUEST, _PROCESS, _UNNAMED = range(4)  # classes of perf's names of programs
_FIRMWARE: Final = 3
"""The exception level of no kernel."""
_GUEST_MARK: Final = "[guest.kernel"
_NO_MODULE: Final = ("[vdso]", "[vdso32]", "[vectors]", "[heap]", "[stack]", "[unknown]", "[vsyscall]", "[uprobes]")


class GuestKernel(NamedTuple):
    """A guest's kernel; ``number`` is its VMID, or its process in perf's names; None if there is only one guest."""

    program: Program
    number: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """Host (row 0) and guests (from row 1 on), and the level at which the host's kernel runs; None if not known.

    ``unnumbered``: the trace gives guests' ranges a VMID, and others none (as recordings do). ``processes`` have the
    rows after those of the guests.
    """

    host: Program
    guests: tuple[GuestKernel, ...] = ()
    host_level: int | None = None
    unnumbered: bool = False
    processes: Processes | None = None
    programs: list[Program] = field(init=False)
    """Host, guests, and binaries of processes, by row; these are added as they are met in the trace."""

    def __post_init__(self) -> None:
        """Start with the kernels."""
        object.__setattr__(self, "programs", [self.host, *(guest.program for guest in self.guests)])

    @property
    def kernels(self) -> list[Program]:
        """Host and guests, by row."""
        return self.programs[: 1 + len(self.guests)]

    def binary_rows(self) -> list[list[int]]:
        """Return the rows of each binary of processes, which may have been at several places."""
        rows: dict[str, list[int]] = {}
        for row, program in enumerate(self.programs[len(self.kernels) :], len(self.kernels)):
            rows.setdefault(str(program.kernel.image.path), []).append(row)
        return list(rows.values())

    def find_symbols(self, names: Iterable[str]) -> list[tuple[int, int]]:
        """Find every place of these symbols, also in binaries of processes: row of the program, address.

        Raises:
            InputError: no image has one of them.

        """
        names, places = tuple(names), []
        if self.processes is not None and names:
            self.processes.open_with(names)
            self.programs[len(self.kernels) :] = self.processes.programs
        for name in names:
            hits = [(row, place) for row, program in enumerate(self.programs) for place in program.find(name)]
            if not hits:
                raise InputError(self._missing(name), path=self.host.name)
            places += hits
        return places

    def _missing(self, name: str) -> str:
        names, others = set().union(*(program.function_names() for program in self.programs)), ""
        if self.processes is not None:
            names, others = names | self.processes.function_names(), ", and no program here has it"
        hint = meant(name, names)
        return f"has no symbol {name}{others}{hint and ': ' + hint}"

    def rows(self, batch: Batch) -> I64:
        """Return the row of each range's program, ``USER``, ``UNDECIDED`` or ``WORLD``; shape (n,)."""
        ranges = batch.ranges
        named = np.array([_class_of(name) for name in batch.dsos])[ranges["dso"]]
        below = ranges["start"] < np.uint64(KERNEL_HALF)
        # At a kernel's address, perf's names are of code that the kernel made: BPF programs, trampolines.
        named[(named == _PROCESS) & ~below] = _HOST
        user = (ranges["level"] == 0) | (named == _PROCESS) | (ranges["flags"] & np.uint8(AARCH32) != 0)
        user |= ranges["level"] == _FIRMWARE
        low = np.flatnonzero(~user & (ranges["level"] == NO_LEVEL) & below)
        # Before the MMU is on, a kernel runs at low addresses, too; the image has them if it was given that slide.
        user[low] = self.host.piece_of(ranges["start"][low], ranges["end"][low]) < 0
        if not self.guests:
            # VMID 0 is the host's, while it boots also with VHE; any other is a guest's, which has no image here.
            guests = ranges["vmid"] > 0
            if self.host_level == 2 and not self.unnumbered:
                guests |= ranges["vmid"] == NO_VMID
            rows = np.where(named == _GUEST, UNDECIDED, 0)
            rows = np.where((ranges["level"] == 1) & guests & (named == _UNNAMED), UNDECIDED, rows)
        else:
            rows = self._by_level(ranges)
            rows = np.where(named == _HOST, 0, rows)
            rows = np.where(named == _GUEST, self._by_name(batch)[ranges["dso"]], rows)
        # The same address has other text in another world: OP-TEE's, an RMM's, firmware's.
        world = ranges["flags"] & np.uint8(OTHER_WORLD) != 0
        rows = np.where(world, WORLD, np.where(user, USER, rows)).astype(np.int64)
        if self.processes is not None:
            of_code = (rows == USER) & (ranges["level"] == 0) & (ranges["flags"] & np.uint8(AARCH32) == 0)
            self._add_processes(batch, np.flatnonzero(of_code), rows)
        return rows

    def _add_processes(self, batch: Batch, chosen: I64, rows: I64) -> None:
        """Put in the rows of binaries, as far as these are known."""
        if self.processes is None or not len(chosen):
            return
        binary_rows, first = self.processes.rows(batch, chosen), 1 + len(self.guests)
        self.programs[first:] = self.processes.programs
        rows[chosen] = np.where(binary_rows < 0, USER, binary_rows + first)

    def _by_level(self, ranges: np.ndarray[tuple[int], np.dtype[np.void]]) -> I64:
        level, vmid = ranges["level"], ranges["vmid"]
        rows = np.full(len(ranges), UNDECIDED, np.int64)
        known = vmid != NO_VMID
        guest_rows = np.full(len(ranges), UNDECIDED, np.int64)
        for row, guest in enumerate(self.guests, 1):
            if guest.number is None:
                guest_rows[:] = row
            else:
                guest_rows[known & (vmid == guest.number)] = row
        rows[level == 2] = 0
        at_el1 = level == 1
        if self.host_level is not None:  # guests' VMIDs begin with 1 (arch/arm64/kvm/vmid.c, 6.1-6.12)
            rows[at_el1 & known & (vmid == 0)] = 0
        of_guests = at_el1 & (vmid != 0)
        if self.host_level == 1:
            of_guests &= known
        if self.host_level is not None:
            rows[of_guests] = guest_rows[of_guests]
        if self.unnumbered:
            rows[at_el1 & ~known] = 0  # also of a VHE host, while it boots
        rows[level == NO_LEVEL] = UNDECIDED
        return rows

    def _by_name(self, batch: Batch) -> I64:
        """Return the row of the guest for each of perf's names of guests."""
        rows = np.full(len(batch.dsos), UNDECIDED, np.int64)
        for k, name in enumerate(batch.dsos):
            # "[guest.kernel.kallsyms.NUMBER]"
            digits = "".join(c if c.isdigit() else " " for c in name).split()
            for row, guest in enumerate(self.guests, 1):
                if guest.number is None or str(guest.number) in digits[-1:]:
                    rows[k] = row
                    break
        return rows


def _class_of(name: str) -> int:
    """Classify perf's name of a program."""
    if not name or name == "[unknown]":
        return _UNNAMED
    if name.startswith(_GUEST_MARK):
        return _GUEST
    if name.startswith("[kernel") or name.rpartition("/")[2].startswith("vmlinux"):
        return _HOST
    if (name.startswith("[") and name not in _NO_MODULE) or ".ko" in name.rpartition("/")[2]:
        return _HOST  # a module
    return _PROCESS
