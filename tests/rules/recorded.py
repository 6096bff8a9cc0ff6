"""Recordings for the rules about recorded writes: a jump label that is switched while two CPUs run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from prologue.insn import a64
from prologue.live.pokes.recording import Flag, Function, Trailer
from tests.live.pokes.made import recording_of, write_recording
from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments
from tests.support.built import Mini

JUDGE: Final = ("writes", "judge")
PLACE: Final = 0xFFFF800080010000
STORE: Final = 0xFFFF800080020000
CALLERS: Final = (0xFFFF800080021010, 0xFFFF800080022010, 0xFFFF800080023010)
WHOLE: Final = 0x62321  # DC, DSB, IC IVAU, DSB, ISB
FUNCTIONS: Final = tuple(
    Function(start=start, end=start + 0x100, name=name)
    for start, name in (
        (PLACE, "vfs_read"), (STORE, "copy_to_kernel_nofault"), (CALLERS[0] & ~0xFFF, "__aarch64_insn_write"),
        (CALLERS[1] & ~0xFFF, "aarch64_insn_patch_text_nosync"),
        (CALLERS[2] & ~0xFFF, "arch_jump_label_transform_queue"),
    )
)  # fmt: skip
SWITCHED: Final[dict[str, Any]] = {
    "time": 1000, "address": PLACE, "pc": STORE, "callers": CALLERS, "running": 3, "synced": 1, "maintenance": WHOLE,
    "old": a64.NOP, "new": 0x14000002, "flags": Flag.RAN_BEFORE,
}  # fmt: skip


def recorded(mini: Mini, *, functions: tuple[Function, ...] = FUNCTIONS, **changed: object) -> Arguments:
    """The file of a recording with that one write, and some of its fields changed."""
    path = Path(mini(Spec())).with_name("recorded.writes")
    write_recording(path, recording_of(SWITCHED | changed, trailer=Trailer(functions=functions)))
    return [path]
