"""Runtime constants: values that boot wrote into instructions, and that the kernel has in a variable.

arch/arm64/include/asm/runtime-const.h (6.12-7.3): for each variable a section ``runtime_KIND_NAME`` of s32, relative to
themselves: ``ptr`` MOVZ and three MOVKs, ``shift`` an LSR, ``mask`` a UBFX. A variable that nothing reads may be gone
from the kernel. Boot wrote the same value to all of its places: that they agree is evidence, if there are several.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.arrays import U32, U64
from prologue.live.audit.audited import Agreement
from prologue.live.audit.claims import Claims, Scene, words_from

_PTR, _SHIFT, _MASK = "runtime_ptr_", "runtime_shift_", "runtime_mask_"
_VALUE_BITS: Final = {_PTR: 0xFFFF << 5, _SHIFT: 0x3F << 16, _MASK: 0x3F << 10}  # where an instruction has the value
_FIELDS: Final = {_PTR: (5, 16), _SHIFT: (16, 6), _MASK: (10, 5)}  # lowest bit and width that can be used of it
_PLACE_WORDS: Final = {_PTR: 4, _SHIFT: 1, _MASK: 1}
_SEVERAL: Final = 2  # places that can agree


def claim_constants(scene: Scene) -> Iterator[Claims]:
    """Claim the words of each variable."""
    for section in scene.binary.image.sections:
        for prefix in (_PTR, _SHIFT, _MASK):
            if section.name.startswith(prefix) and section.has_bytes:
                fields = np.uint64(section.addr) + np.arange(section.size // 4, dtype=np.uint64) * np.uint64(4)
                places = scene.binary.relative32(fields)
                yield from _claim_constant(scene, prefix, section.name.removeprefix(prefix), places)


def _claim_constant(scene: Scene, kind: str, name: str, places: U64) -> Iterator[Claims]:
    """Claim a constant; a place of which memory lacks a word or more is no evidence for the value."""
    step = _PLACE_WORDS[kind]
    in_text = scene.binary.text.in_text(words_from(places, step)).reshape(-1, step)
    value = scene.variables.number(name, 8 if kind == _PTR else 4)
    if value is not None:
        vaddrs = words_from(places[in_text.any(axis=1)], step)
        expected, reason = _with_value(scene.linked(vaddrs), kind, value), f"the constant {name}, {value:#x}"
        yield Claims("runtime constants", vaddrs, scene.binary.text.words(vaddrs), expected, reason=lambda _: reason)
        return
    yield _agreeing(scene, kind, name, places[in_text.all(axis=1)])
    vaddrs = words_from(places[in_text.any(axis=1) & ~in_text.all(axis=1)], step)
    live, linked = scene.binary.text.words(vaddrs), scene.linked(vaddrs)
    bits = np.uint32(_VALUE_BITS[kind])
    reason = f"the constant {name}, of which memory lacks a part here"
    expected = linked & ~bits | live & bits
    yield Claims("runtime constants", vaddrs, live, expected, reason=lambda _: reason, unsure=True)


def _agreeing(scene: Scene, kind: str, name: str, places: U64) -> Claims:
    """Claim the places of a constant whose value no variable says."""
    vaddrs = words_from(places, _PLACE_WORDS[kind])
    live, linked = scene.binary.text.words(vaddrs), scene.linked(vaddrs)
    gone = "memory does not have its variable" if scene.variables.place(name) else "it has no variable"
    value, count = _most_common(live, kind)
    if 2 * count <= len(places):
        # No half has the same value: every word in which they differ is wrong, at all of them.
        table = live.reshape(-1, _PLACE_WORDS[kind]) & np.uint32(_VALUE_BITS[kind])
        expected = np.where(np.tile((table == table[0]).all(axis=0), len(table)), live, linked)
        reason = f"the constant {name}, of which {gone}: its {len(table)} places disagree"
        return Claims("runtime constants", vaddrs, live, expected, reason=lambda _: reason)
    reason = f"the constant {name}, {value:#x} at {count} of its {len(places)} places ({gone})"
    agreement = Agreement(name, value, len(places)) if len(places) >= _SEVERAL else None
    return Claims(
        "runtime constants", vaddrs, live, _with_value(linked, kind, value), reason=lambda _: reason,
        unsure=agreement is None, agreement=agreement,
    )  # fmt: skip


def _with_value(linked: U32, kind: str, value: int) -> U32:
    low, width = _FIELDS[kind]
    field = max(value.bit_length(), 1) - 1 if kind == _MASK else value
    parts = np.array([field >> width * k & (1 << width) - 1 for k in range(_PLACE_WORDS[kind])], np.uint32)
    return linked & ~np.uint32(_VALUE_BITS[kind]) | np.tile(parts << np.uint32(low), len(linked) // len(parts))


def _most_common(live: U32, kind: str) -> tuple[int, int]:
    """Return the value that most places have, and the number of these."""
    if not len(live):
        return 0, 1
    (low, width), count = _FIELDS[kind], _PLACE_WORDS[kind]
    parts = (live >> np.uint32(low) & np.uint32((1 << width) - 1)).astype(np.uint64).reshape(-1, count)
    values, counts = np.unique(sum(parts[:, k] << np.uint64(width * k) for k in range(count)), return_counts=True)
    field = int(values[np.argmax(counts)])
    return (1 << field + 1) - 1 if kind == _MASK else field, int(counts.max())
