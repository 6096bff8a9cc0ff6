"""Mechanisms of the kernel that may write a word, by the audit of its memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from prologue.arrays import U64
from prologue.live.audit.audit_kernel import kernel_claims, read_facts
from prologue.live.memory.base import Memory
from prologue.live.memory.ranges import TOP
from prologue.live.system.running_system import RunningSystem


class Mechanisms:
    """The owners of words of a kernel's own text.

    Raises:
        InputError: the memory is another kernel's, or cannot be read.

    """

    def __init__(self, vmlinux: Path, memory: Memory) -> None:
        system = RunningSystem(vmlinux, memory)
        kernel = system.kernel
        facts = read_facts(kernel, system.state_without_dwarf())  # for a dump, too: its memory has the tables
        self.slide = kernel.slide
        # A kprobe's breakpoint may cover any other owner's word.
        self._probes = frozenset(probe.vaddr for probe in facts.breakpoints.at.values())
        self._claims: list[tuple[str, U64]] = [
            (claims.mechanism, np.sort(claims.vaddrs)) for claims in kernel_claims(kernel, facts)
        ]

    def owner(self, vaddr: int) -> str:
        """Return the mechanism that may write the word at a run-time address; empty if there is none."""
        place = np.uint64((vaddr - self.slide) & TOP)
        names = ["kprobe"] if vaddr in self._probes else []
        for name, vaddrs in self._claims:
            at = int(np.searchsorted(vaddrs, place))
            if at < len(vaddrs) and vaddrs[at] == place:
                names.append(name)
        return ", ".join(dict.fromkeys(names))
