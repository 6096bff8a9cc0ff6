"""Read-only data: an alternative of the vDSO explains its own instruction, and not the one beside it."""

from __future__ import annotations

from prologue.live.hooks.readonly import explained_words

LINKED = bytes(range(16))


def test_an_alternative_explains_its_own_half_only() -> None:
    live = bytearray(LINKED)
    live[12:16] = b"\xff" * 4
    assert explained_words({12}, LINKED, bytes(live)) == [8]
    live[8] ^= 1  # the other half of that word
    assert explained_words({12}, LINKED, bytes(live)) == []
    assert explained_words({8, 12}, LINKED, bytes(live)) == [8]
