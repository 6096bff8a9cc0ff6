"""A real vmlinux as if it had booted where it is linked: with the text that the mechanisms make, to be broken."""

from __future__ import annotations

import mmap
import random
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from prologue.arrays import U64
from prologue.elf.dynrelocs import relocated
from prologue.elf.image import ElfImage, Segment, unaligned
from prologue.elf.notes import gnu_build_id
from prologue.live.audit.audit_kernel import kernel_claims, read_facts
from prologue.live.audit.outcome import Audit
from prologue.live.memory.base import KernelInfo
from prologue.live.memory.ranges import Range, UnmappedError
from prologue.live.memory.state import KernelState
from prologue.live.system.running_kernel import RunningKernel
from prologue.live.system.running_system import RunningSystem
from prologue.rules.base import Finding
from tests.mutation.world import World
from tests.support.planted import audit_text


class MappedMemory:
    """The segments of a vmlinux in a mapping, as memory; what the file does not have is zero, as .bss is."""

    def __init__(self, mapping: mmap.mmap, segments: Sequence[Segment], seed: random.Random) -> None:
        self._mapping = mapping
        self._segments = segments
        self._seed = seed
        self.name, self.live = "memory", False
        self.info = KernelInfo()
        self.more: dict[int, bytes] = {}  # pages that the file does not have
        self.restless: set[int] = set()  # words that every reading finds changed

    def read(self, vaddr: int, size: int) -> bytes:
        page = self.more.get(vaddr & ~4095)
        if page is not None:
            return page[vaddr & 4095 :][:size]
        for segment in self._segments:
            at = vaddr - segment.vaddr
            if at >= 0 and at + size <= -(-segment.memsz // 4096) * 4096:
                stop = min(at + size, segment.filesz)
                data = self._mapping[segment.offset + at : segment.offset + stop] if at < stop else b""
                return self._shaken(vaddr, data.ljust(size, b"\0"))
        raise UnmappedError(f"nothing at {vaddr:#x}")

    def _shaken(self, vaddr: int, data: bytes) -> bytes:
        changed = bytearray(data)
        for place in self.restless:
            if vaddr <= place < vaddr + len(data):
                struct.pack_into("<I", changed, place - vaddr, self._seed.randrange(1 << 32))
        return bytes(changed)

    def read_many(self, ranges: Sequence[Range]) -> list[bytes]:
        return [self.read(*piece) for piece in ranges]

    def state(self, vmlinux: Path | None = None) -> KernelState:
        return KernelState(release="", boot_id="", modules=(), symbols=(), kprobes=())


class BootedWorld(World):
    """The mapping is the memory of the kernel; what the file has stays to compare with."""

    def __init__(self, path: Path, seed: random.Random) -> None:
        super().__init__(path, seed)
        self.kernel = MappedMemory(self.memory, self.original.image.segments, seed)
        self._reset()
        places, values = relocated(self.original.image)
        offsets = self.original.image.offsets(places)
        unaligned(memoryview(self.memory), 8)[offsets[offsets >= 0]] = values[offsets >= 0]
        running = RunningKernel(ElfImage(self.path), self.kernel)
        self.claimed: dict[str, U64] = {}
        for claims in kernel_claims(running, read_facts(running, None)):
            self.claimed[claims.mechanism] = claims.vaddrs
            offsets = self.original.image.offsets(claims.vaddrs)
            unaligned(memoryview(self.memory), 4)[offsets] = claims.expected
        self._undo.clear()

    def _reset(self) -> None:
        self.kernel.restless.clear()
        self.kernel.more.clear()
        self.kernel.live = False
        self.judge: Callable[[RunningSystem], Audit] = audit_text
        self.kernel.info = KernelInfo("", gnu_build_id(self.original.image), 0)

    def restore(self) -> None:
        super().restore()
        self._reset()

    def findings(self) -> tuple[Finding, ...]:
        """What an audit says."""
        return self.judge(RunningSystem(ElfImage(self.path), self.kernel)).findings  # as the command opens it

    # choosing

    def one_of(self, mechanism: str) -> int:
        """Address of some word of a mechanism."""
        return self.pick(self.claimed[mechanism])

    def unclaimed(self) -> int:
        """Address of an instruction that no mechanism owns."""
        owned = np.concatenate(list(self.claimed.values()))
        section = self.section(".text")
        while True:
            vaddr = self.seed.randrange(section.addr, section.addr + section.size, 4)
            if not (owned == np.uint64(vaddr)).any():
                return vaddr
