"""Changes of running text, over all mechanisms, and memory that has them: each must be found, at its place."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from prologue.insn import a64
from prologue.kernel.tables import alternative_entries, jump_labels, runtime_constants
from prologue.live.audit.outcome import Audit
from prologue.live.audit.run import LIVE_RULES, look_at, mismatch_audit, with_findings
from prologue.live.memory.base import KernelInfo, Memory
from prologue.live.memory.ranges import Range
from prologue.live.memory.state import KernelState
from prologue.live.system.running_kernel import RunningKernel
from prologue.live.system.running_system import RunningSystem
from prologue.live.system.running_text import AnotherKernelError

Change = tuple[str, int, int]  # what it is, link-time address, the word that is put there


def audit_text(system: RunningSystem) -> Audit:
    """Judge all text by every rule, and nothing of what is attached."""
    try:
        return with_findings(look_at(system), LIVE_RULES)
    except AnotherKernelError as error:
        return mismatch_audit(system, error)


class ChangedMemory:
    """Another memory with some words changed, by run-time address."""

    def __init__(self, memory: Memory, changes: dict[int, int]) -> None:
        self._memory = memory
        self._changes = sorted(changes.items())
        self._places = np.array([vaddr for vaddr, _ in self._changes], np.uint64)
        self.name, self.live = memory.name, memory.live

    @property
    def info(self) -> KernelInfo:
        return self._memory.info

    def read(self, vaddr: int, size: int) -> bytes:
        data = self._memory.read(vaddr, size)
        low, high = np.searchsorted(self._places, np.array([max(vaddr - 3, 0), vaddr + size], np.uint64)).tolist()
        if low == high:
            return data
        changed = bytearray(data)
        for place, word in self._changes[low:high]:
            for k, byte in enumerate(struct.pack("<I", word)):
                if 0 <= place + k - vaddr < size:
                    changed[place + k - vaddr] = byte
        return bytes(changed)

    def read_many(self, ranges: Sequence[Range]) -> list[bytes]:
        return [self.read(*piece) for piece in ranges]

    def state(self, vmlinux: Path | None = None) -> KernelState:
        return self._memory.state(vmlinux)


class Planter:
    """Chooses changes in a running kernel as it was read, without any."""

    def __init__(self, kernel: RunningKernel, seed: int) -> None:
        self.kernel = kernel
        self.chance = random.Random(seed)  # noqa: S311 - not a secret
        text = kernel.text
        assert kernel.sites is not None
        there = text.in_text(kernel.sites.first)
        self._first = kernel.sites.first[there]
        self._entry = kernel.sites.entry[there]
        labels = jump_labels(kernel)
        mine = text.in_text(labels.code)
        self._labels = list(zip(labels.code[mine].tolist(), labels.target[mine].tolist(), strict=True))
        self._alternatives = alternative_entries(kernel)
        self._constants = runtime_constants(kernel)
        sections = [section for section in kernel.image.sections if section.name.startswith("runtime_")]
        fields = [np.uint64(s.addr) + np.arange(s.size // 4, dtype=np.uint64) * np.uint64(4) for s in sections]
        self._variables = [kernel.relative32(places).tolist() for places in fields]  # of which one place is changed
        self._code = next(s for s in kernel.image.text_sections if s.name == ".text")
        slots = np.concatenate([self._first, self._first + np.uint64(4), self._constants])
        self._owned = {*slots.tolist(), *self._alternatives.original.words().tolist(), *(at for at, _ in self._labels)}
        self.kinds: dict[str, Callable[[], tuple[int, int]]] = {
            "call elsewhere": self._call,
            "first slot overwritten": self._overwrite_first,
            "jump label turned": self._turn,
            "alternative in part": self._part,
            "unlisted code": self._unlisted,
        }
        if kernel.sites.layout == "4,2":
            self.kinds["literal"] = self._literal
        if len(self._constants):
            self.kinds["constant"] = self._constant

    def changes(self, count: int) -> Iterator[Change]:
        """Changes, the kinds in turns, of which no two are neighbours."""
        taken: set[int] = set()
        kinds = list(self.kinds)
        for k in range(count):
            name = kinds[k % len(kinds)]
            while True:
                vaddr, word = self.kinds[name]()
                if not taken & {vaddr + 4 * step for step in range(-4, 5)} and word != self._word(vaddr):
                    break
            taken.add(vaddr)
            yield name, vaddr, word

    def _word(self, vaddr: int) -> int:
        return int(self.kernel.text.words(np.array([vaddr], np.uint64))[0])

    def _away(self, vaddr: int, *, link: bool) -> int:
        low, high = self._code.addr, self._code.addr + self._code.size
        return a64.encode_b(vaddr, self.chance.randrange(low, high, 4), link=link)

    def _call(self) -> tuple[int, int]:
        vaddr = int(self.chance.choice(self._first)) + 4
        return vaddr, self._away(vaddr, link=True)

    def _overwrite_first(self) -> tuple[int, int]:
        return int(self.chance.choice(self._first)), self.chance.choice((a64.NOP, 0xAA1E03EA, 0xD65F03C0))

    def _turn(self) -> tuple[int, int]:
        code, target = self.chance.choice(self._labels)
        to_target = a64.encode_b(code, target)
        return code, to_target if self._word(code) == a64.NOP else a64.NOP

    def _part(self) -> tuple[int, int]:
        """One word of what the whole entry has not: of the original where it was replaced, else of the replacement."""
        entries = self._alternatives
        while True:
            k = self.chance.randrange(len(entries.is_callback))
            step = self.chance.randrange(int(entries.original.size[k]) // 4)
            vaddr = int(entries.original.start[k]) + 4 * step
            places = np.array([vaddr, int(entries.replacement.start[k]) + 4 * step], np.uint64)
            if entries.is_callback[k] or not self.kernel.text.in_text(places[:1])[0]:
                continue
            linked, replacement = self.kernel.image.words(places).tolist()
            word = replacement if self._word(vaddr) == linked else linked
            if word != self._word(vaddr):
                return vaddr, word

    def _unlisted(self) -> tuple[int, int]:
        while True:
            vaddr = self.chance.randrange(self._code.addr, self._code.addr + self._code.size, 4)
            if vaddr not in self._owned:
                return vaddr, self.chance.choice(
                    (self._away(vaddr, link=False), self._word(vaddr) ^ 1 << self.chance.randrange(32), a64.NOP)
                )

    def _literal(self) -> tuple[int, int]:
        vaddr = int(self.chance.choice(self._entry)) - self.chance.choice((8, 4))
        return vaddr, self._word(vaddr) ^ 1 << self.chance.randrange(32)

    def _constant(self) -> tuple[int, int]:
        vaddr = self.chance.choice(self.chance.choice(self._variables))
        return vaddr, self._word(vaddr) ^ 1 << self.chance.randrange(16, 20)
