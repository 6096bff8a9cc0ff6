"""The rules for kprobes that a vmlinux follows: read from its code if it shows them, otherwise from its release."""

from __future__ import annotations

from typing import Final

import numpy as np

from prologue.errors import InputError
from prologue.kernel.kernel import Kernel
from prologue.probe.instructions import NEW_EXCLUSIVE, OLD_EXCLUSIVE, Decoding
from prologue.releases import DECODES_MOPS, OLDEST, PROBES_COMPARED, TELLS_EXCLUSIVES

_DECODER: Final = "arm_kprobe_decode_insn"
# How a compiler loads each mask (Arm ARM, "MOVZ", "AND (immediate)"): (mask, value) of the instruction, registers left
# out. 0x3F400000 is no bit mask that AND could hold, 0x3FC00000 is.
_LOADS_OLD: Final = (0xFFFFFFE0, 0x52800000 | 1 << 21 | 0x3F40 << 5)
_HOLDS_NEW: Final = (0xFFFFFC00, 0x12000000 | 10 << 16 | 7 << 10)


def decoding_of(kernel: Kernel) -> Decoding:
    """Find out how this kernel decodes the instruction under a probe.

    Raises:
        InputError: no kprobes, a release that is unknown, or one before 5.5, whose ftrace has no second slots.

    """
    if kernel.symbols.find("register_kprobe") is None:
        raise InputError("has no kprobes: built without CONFIG_KPROBES", path=kernel.path)
    if kernel.version is None:
        raise InputError("its release is unknown (no linux_banner), and so are its rules for kprobes", path=kernel.path)
    if kernel.version < OLDEST:
        raise InputError(f"is {kernel.release}: kprobes are judged for 5.5 and newer", path=kernel.path)
    return Decoding(
        exclusive=_exclusive_mask(kernel, kernel.version),
        simulates_nop=kernel.symbols.find("simulate_nop") is not None,
        knows_mops=kernel.version >= DECODES_MOPS,
    )


def rules_of(kernel: Kernel) -> tuple[int, int]:
    """Return the newest compared release that is not newer than the kernel; for older kernels the oldest."""
    version = kernel.version or PROBES_COMPARED[0]
    return max((release for release in PROBES_COMPARED if release <= version), default=PROBES_COMPARED[0])


def _exclusive_mask(kernel: Kernel, version: tuple[int, int]) -> int:
    """Find the mask that tells LDXR and STXR: in the decoder, which inlines it, otherwise by the release."""
    symbol = kernel.symbols.function_at(decoder.vaddr) if (decoder := kernel.symbols.find(_DECODER)) else None
    code = kernel.image.read_at(symbol.vaddr, symbol.size & ~3) if symbol else None
    words = np.frombuffer(code or b"", "<u4")
    for (mask, value), meaning in ((_LOADS_OLD, OLD_EXCLUSIVE), (_HOLDS_NEW, NEW_EXCLUSIVE)):
        if (words & np.uint32(mask) == np.uint32(value)).any():
            return meaning
    return NEW_EXCLUSIVE if version >= TELLS_EXCLUSIVES else OLD_EXCLUSIVE
