"""A real vmlinux whose jump labels and sites are switched live, as recorded writes: to be broken."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from prologue.insn import a64
from prologue.kernel.tables import jump_labels
from prologue.live.pokes.judge import judge_writes
from prologue.live.pokes.recording import Flag, Function, Recording, Trailer, empty_rows
from prologue.rules.base import Finding
from tests.live.pokes.made import ORIGIN
from tests.mutation.world import World
from tests.rules.running import WHOLE

_CHAIN = {
    "jump label": ("copy_to_kernel_nofault", "aarch64_insn_patch_text_nosync", "arch_jump_label_transform_queue"),
    "ftrace": ("copy_to_kernel_nofault", "aarch64_insn_patch_text_nosync", "ftrace_make_call"),
}


class RecordedWorld(World):
    """Rows: each jump label to its B, then each second slot to a BL, while two CPUs run."""

    def __init__(self, path: Path, seed: random.Random) -> None:
        super().__init__(path, seed)
        labels = np.unique(jump_labels(self.original).code)
        places = np.concatenate([labels, self.sites.second])
        self.rows = empty_rows(len(places))
        self.rows["time"] = np.arange(len(places))
        self.rows["address"], self.rows["running"], self.rows["maintenance"] = places, 3, WHOLE
        self.rows["old"], self.rows["new"], self.rows["flags"] = a64.NOP, 0x94000010, Flag.RAN_BEFORE
        self.rows["new"][: len(labels)] = 0x14000010
        self.functions: list[Function] = []
        for k, names in enumerate((_CHAIN["jump label"], _CHAIN["ftrace"])):
            which = slice(len(labels)) if k == 0 else slice(len(labels), None)
            self.rows["pc"][which] = self.address(names[0])
            for caller, name in enumerate(names[1:]):
                self.rows["callers"][which, caller] = self.address(name)
        self._whole = self.rows.copy()

    def address(self, name: str) -> int:
        """An address inside of a function of the kernel."""
        symbol = self.symbol(name)
        self.functions.append(Function(start=symbol.vaddr, end=symbol.vaddr + symbol.size, name=name))
        return symbol.vaddr + 8

    def some_row(self) -> int:
        return self.seed.randrange(len(self.rows))

    def restore(self) -> None:
        super().restore()
        self.rows[:] = self._whole

    def findings(self) -> tuple[Finding, ...]:
        """What a judge says."""
        return judge_writes(Recording("made", ORIGIN, Trailer(functions=tuple(self.functions)), self.rows)).findings
