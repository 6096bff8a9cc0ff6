"""A set of instruction addresses as one bit array per text section: a look-up beats a search for 600,000 branches."""

from __future__ import annotations

from typing import Final

import numpy as np

from prologue.arrays import U64, Bool, among_sorted, sorted_unique
from prologue.kernel.text import Text

_FEW: Final = 64  # sections whose arrays are looked into one after the other


class SlotMap:
    """Words of the text that belong to the set."""

    def __init__(self, text: Text, vaddrs: U64) -> None:
        self._maps: list[tuple[np.uint64, Bool]] = []
        self._text = text.text_map
        for section, place in self._text.split(vaddrs):
            marked = np.zeros(section.size // 4 + 1, np.bool_)  # the last stands for all that is elsewhere
            offset = vaddrs[place] - np.uint64(section.addr)
            marked[(offset[offset < np.uint64(section.size & ~3)] >> np.uint64(2)).astype(np.int64)] = True
            self._maps.append((np.uint64(section.addr), marked))
        # With a section for each function, a search is quicker than a look into each section's array.
        self._members = sorted_unique(vaddrs[text.in_text(vaddrs)]) if len(self._maps) > _FEW else None

    def contains(self, vaddrs: U64) -> Bool:
        """Return which of the addresses are in the set; addresses inside of an instruction are not."""
        if self._members is not None:
            return among_sorted(vaddrs, self._members)
        result = np.zeros(len(vaddrs), np.bool_)
        for base, marked in self._maps:
            place = vaddrs - base
            place >>= np.uint64(2)
            result |= marked.take(place.view(np.int64), mode="clip")
        aligned: Bool = vaddrs & np.uint64(3) == 0
        return result & aligned
