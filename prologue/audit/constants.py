"""Runtime constants: what boot wrote into instructions, and has in a variable.

arch/arm64/include/asm/runtime-const.h (6.12-7.2): for each variable a section ``runtime_KIND_NAME`` of s32, relative to
themselves: ``ptr`` MOVZ and three MOVKs, ``shift`` an LSR, ``mask`` a UBFX. A variable that nothing reads may be gone
from the kernel; then all of its places have to agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.arrays import U32, U64, Bool
from prologue.audit.claims import But, Claims, Compared, claim
from prologue.audit.scene import Scene

_PTR, _SHIFT, _MASK = "runtime_ptr_", "runtime_shift_", "runtime_mask_"
_IMM16: Final = np.uint32(0xFFFF << 5)


def claim_constants(scene: Scene) -> Iterator[Claims]:
    """One claim for each variable."""
    for section in scene.binary.image.sections:
        for prefix in (_PTR, _SHIFT, _MASK):
            if section.name.startswith(prefix) and section.has_bytes:
                fields = np.uint64(section.addr) + np.arange(section.size // 4, dtype=np.uint64) * np.uint64(4)
                places = scene.binary.relative32(fields)
                places = places[scene.binary.text.in_text(places)]
                yield _claim_one(scene, prefix, section.name.removeprefix(prefix), places)


def _claim_one(scene: Scene, kind: str, name: str, places: U64) -> Claims:
    vaddrs = _words_of(places) if kind == _PTR else places
    live, linked = scene.binary.text.words(vaddrs), scene.linked(vaddrs)
    value = scene.variables.number(name, 8 if kind == _PTR else 4)
    sure = value is not None
    if value is None:
        value = _agreed(live, kind)
    expected = _with_value(linked, kind, value)
    unsure: Bool = np.full(len(vaddrs), not sure)
    why = f"the constant {name}, {value:#x}" + ("" if sure else " at most of its places (it has no variable)")
    return claim("runtime constants", "word", Compared(vaddrs, live, expected), lambda _: why, But(unsure=unsure))


def _words_of(places: U64) -> U64:
    return np.repeat(places, 4) + np.tile(np.arange(4, dtype=np.uint64) * np.uint64(4), len(places))


def _with_value(linked: U32, kind: str, value: int) -> U32:
    if kind == _SHIFT:
        return linked & np.uint32(0xFFC0FFFF) | np.uint32((value & 63) << 16)
    if kind == _MASK:
        return linked & np.uint32(0xFFFF03FF) | np.uint32((max(value.bit_length(), 1) - 1 & 0x1F) << 10)
    parts = np.array([value >> 16 * k & 0xFFFF for k in range(4)], np.uint32) << np.uint32(5)
    return linked & ~_IMM16 | np.tile(parts, len(linked) // 4)


def _agreed(live: U32, kind: str) -> int:
    """The value that most places have."""
    if not len(live):
        return 0
    if kind == _SHIFT:
        found = live >> np.uint32(16) & np.uint32(63)
    elif kind == _MASK:
        found = live >> np.uint32(10) & np.uint32(0x1F)
    else:
        parts = (live >> np.uint32(5) & np.uint32(0xFFFF)).astype(np.uint64).reshape(-1, 4)
        values, counts = np.unique(sum(parts[:, k] << np.uint64(16 * k) for k in range(4)), return_counts=True)
        return int(values[np.argmax(counts)])
    values, counts = np.unique(found, return_counts=True)
    common = int(values[np.argmax(counts)])
    return common if kind == _SHIFT else (1 << common + 1) - 1
