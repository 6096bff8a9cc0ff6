"""Jump labels: NOP, or the B of their entry, as their key in memory says.

``include/linux/jump_label.h`` (6.1-7.3): a key has ``atomic_t enabled``; an entry's word is a branch if the key
is enabled, and the other way round if bit 0 of the entry's key field is set. ``enabled`` is -1 while it is being set.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from prologue.arrays import U64
from prologue.insn import a64
from prologue.insn.decode import B, jump
from prologue.kernel.tables import jump_label_keys, jump_labels
from prologue.live.audit.claims import Claims, Scene
from prologue.live.structs.variables import MemoryWords
from prologue.words import at_offset

_BEING_SET: Final = 0xFFFFFFFF


def claim_jump_labels(scene: Scene) -> Claims:
    """Claim every label in text that memory has."""
    binary = scene.binary
    labels = jump_labels(binary)
    text_rows = np.flatnonzero(binary.text.in_text(labels.code))
    code, target = labels.code[text_rows], labels.target[text_rows]
    keys, inverted = jump_label_keys(binary, labels.entries[text_rows])
    enabled = _enabled(scene, keys)
    being_set = enabled.values == _BEING_SET
    jumps = (enabled.values != 0) ^ inverted
    live = binary.text.words(code)
    to_target = jump(B, (target - code).view(np.int64) >> 2)
    nop = np.uint32(a64.NOP)
    formed = (live == to_target) | (live == nop)
    expected = np.where(enabled.known, np.where(jumps, to_target, nop), np.where(formed, live, nop))
    # Keys and text of a capture are read one after the other: if text did not come to rest, the kernel was at work.
    at_work = scene.unstable or scene.variables.is_held("jump_label_mutex")
    unstable = formed & (being_set | at_work) & (live != expected)

    def reason(k: int) -> str:
        where = scene.binary.symbols.locate(int(keys[k]))
        name = at_offset(where.symbol, where.symbol_offset) if where.symbol else f"at {int(keys[k]):#x}"
        if not enabled.known[k]:
            return f"the key {name}, which memory does not have"
        return f"the key {name} is {'' if int(enabled.values[k]) else 'not '}enabled"

    return Claims(
        "jump labels", code, live, np.where(unstable, live, expected), reason=reason, kind="label",
        unsure=~enabled.known, unstable=unstable, malformed=~formed,
    )  # fmt: skip


def _enabled(scene: Scene, keys: U64) -> MemoryWords:
    offset = scene.variables.layouts.get("static_key.enabled")
    if offset is None:
        return MemoryWords(np.zeros(len(keys), np.uint64), np.zeros(len(keys), np.bool_))
    return scene.read(keys + np.uint64(offset), 4)
