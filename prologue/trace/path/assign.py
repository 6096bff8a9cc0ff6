"""Which kernel a range is of: by the program that perf names, or by exception level and VMID; never by a guess.

Under VHE a host kernel runs at EL2 and its guests' kernels at EL1; an nVHE host runs at EL1 like its guests, and only
the VMID (0 for the host: ``__load_host_stage2``, arch/arm64/include/asm/kvm_mmu.h, 6.1-6.12) tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import I64
from prologue.errors import InputError
from prologue.live.memory.ranges import KERNEL_HALF
from prologue.trace.path.programs import Program
from prologue.trace.ranges import AARCH32, NO_LEVEL, NO_VMID, OTHER_WORLD, Batch

USER, UNDECIDED, WORLD = -1, -2, -3
"""Instead of a program's row: no kernel; a kernel, but the trace does not say which; Secure, Realm or Root state."""
_HOST, _GUEST, _PROCESS, _UNSAID = range(4)
_FIRMWARE: Final = 3
"""The exception level of no kernel."""
NESTED: Final = "VM:?"
"""The name of a guest's guest."""
_GUEST_MARK: Final = ("[guest.kernel", "VM:")
_NO_MODULE: Final = ("[vdso]", "[vdso32]", "[vectors]", "[heap]", "[stack]", "[unknown]", "[vsyscall]", "[uprobes]")


class GuestKernel(NamedTuple):
    """A guest's kernel; ``number`` is its VMID, or its process in perf's names; None if there is only one guest."""

    program: Program
    number: int | None


class Kernels(NamedTuple):
    """Host (row 0) and guests (from row 1 on), and the level at which the host's kernel runs; None if not known.

    ``unnumbered``: the trace gives guests' ranges a VMID, and others none (as recordings do).
    """

    host: Program
    guests: tuple[GuestKernel, ...] = ()
    host_level: int | None = None
    unnumbered: bool = False

    @property
    def programs(self) -> list[Program]:
        """All of them, by row."""
        return [self.host, *(guest.program for guest in self.guests)]

    def find_symbols(self, names: Iterable[str]) -> list[tuple[int, int]]:
        """Find every place of these symbols: row of the program, address.

        Raises:
            InputError: no image has one of them.

        """
        places = []
        for name in names:
            hits = [(row, place) for row, program in enumerate(self.programs) for place in program.find(name)]
            if not hits:
                raise InputError(f"has no symbol {name}", path=self.host.name)
            places += hits
        return places

    def rows(self, batch: Batch) -> I64:
        """Row of each range's program, ``USER``, ``UNDECIDED`` or ``WORLD``; shape (n,)."""
        ranges = batch.ranges
        said = np.array([_class_of(name) for name in batch.dsos])[ranges["dso"]]
        below = ranges["start"] < np.uint64(KERNEL_HALF)
        # At a kernel's address, a program that perf names is one that the kernel made: of BPF, or a trampoline.
        said[(said == _PROCESS) & ~below] = _HOST
        user = (ranges["level"] == 0) | (said == _PROCESS) | (ranges["flags"] & np.uint8(AARCH32) != 0)
        user |= ranges["level"] == _FIRMWARE
        low = np.flatnonzero(~user & (ranges["level"] == NO_LEVEL) & below)
        # Before the MMU is on, a kernel runs at low addresses, too: where its image was said to be.
        user[low] = self.host.piece_of(ranges["start"][low], ranges["end"][low]) < 0
        if not self.guests:
            # VMID 0 is the host's, while it boots also with VHE; any other is a guest's, and no image of it was given.
            guests = ranges["vmid"] > 0
            if self.host_level == 2 and not self.unnumbered:
                guests |= ranges["vmid"] == NO_VMID
            rows = np.where(said == _GUEST, UNDECIDED, 0)
            rows = np.where((ranges["level"] == 1) & guests & (said == _UNSAID), UNDECIDED, rows)
        else:
            rows = self._by_level(ranges)
            rows = np.where(said == _HOST, 0, rows)
            rows = np.where(said == _GUEST, self._by_name(batch)[ranges["dso"]], rows)
        # The same address is other text there: of OP-TEE, of an RMM, of firmware.
        world = ranges["flags"] & np.uint8(OTHER_WORLD) != 0
        return np.where(world, WORLD, np.where(user, USER, rows)).astype(np.int64)

    def _by_level(self, ranges: np.ndarray[tuple[int], np.dtype[np.void]]) -> I64:
        level, vmid = ranges["level"], ranges["vmid"]
        rows = np.full(len(ranges), UNDECIDED, np.int64)
        known = vmid != NO_VMID
        guest = np.full(len(ranges), UNDECIDED, np.int64)
        for row, one in enumerate(self.guests, 1):
            if one.number is None:
                guest[:] = row
            else:
                guest[known & (vmid == one.number)] = row
        rows[level == 2] = 0
        at_el1 = level == 1
        if self.host_level is not None:  # guests' VMIDs begin with 1 (arch/arm64/kvm/vmid.c, 6.1-6.12)
            rows[at_el1 & known & (vmid == 0)] = 0
        if self.host_level == 2:
            mine = at_el1 & (vmid != 0)
            rows[mine] = guest[mine]
        elif self.host_level == 1:
            mine = at_el1 & known & (vmid != 0)
            rows[mine] = guest[mine]
        if self.unnumbered:
            rows[at_el1 & ~known] = 0  # also of a VHE host, while it boots
        rows[level == NO_LEVEL] = UNDECIDED
        return rows

    def _by_name(self, batch: Batch) -> I64:
        """For each of perf's names of guests, the row of the guest."""
        rows = np.full(len(batch.dsos), UNDECIDED, np.int64)
        for k, name in enumerate(batch.dsos):
            if name.startswith(NESTED):
                continue
            # "VM:NUMBER PROGRAM", or "[guest.kernel.kallsyms.NUMBER]"
            head = name.split(" ", 1)[0] if name.startswith("VM:") else name
            digits = "".join(c if c.isdigit() else " " for c in head).split()
            for row, one in enumerate(self.guests, 1):
                if one.number is None or str(one.number) in digits[-1:]:
                    rows[k] = row
                    break
        return rows


def guest_names(name: str, number: int) -> tuple[str, str]:
    """What a program's name in a guest's own trace is among those of its host: below and from ``KERNEL_HALF`` on.

    There a kernel is the guest's; processes stay as they are; and a guest of it is of no image.
    """
    said, own = _class_of(name), f"VM:{number} {name}".rstrip()
    if said == _GUEST:
        return NESTED, NESTED
    return (name if said == _PROCESS else own), own


def _class_of(name: str) -> int:
    """What a program's name of perf says."""
    if not name or name == "[unknown]":
        return _UNSAID
    if name.startswith(_GUEST_MARK):
        return _GUEST
    if name.startswith("[kernel") or name.rpartition("/")[2].startswith("vmlinux"):
        return _HOST
    if (name.startswith("[") and name not in _NO_MODULE) or ".ko" in name.rpartition("/")[2]:
        return _HOST  # a module
    return _PROCESS
