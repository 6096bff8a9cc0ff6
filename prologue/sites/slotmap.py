"""A set of instruction addresses as one bit array per text section: a look-up beats a search for 600,000 branches."""

from __future__ import annotations

import numpy as np

from prologue.arrays import U64, Bool
from prologue.sites.text import Text


class SlotMap:
    """Which words of the text belong to the set."""

    def __init__(self, text: Text, vaddrs: U64) -> None:
        self._maps: list[tuple[np.uint64, Bool]] = []
        for section in text.text_sections:
            marked = np.zeros(section.size // 4 + 1, np.bool_)  # the last stands for all that is elsewhere
            offset = vaddrs - np.uint64(section.addr)  # wraps below the section, and is out of bounds then
            marked[(offset[offset < np.uint64(section.size & ~3)] >> np.uint64(2)).astype(np.int64)] = True
            if marked.any():
                self._maps.append((np.uint64(section.addr), marked))

    def contains(self, vaddrs: U64) -> Bool:
        """Which of the addresses are in the set; addresses inside of an instruction are not."""
        result = np.zeros(len(vaddrs), np.bool_)
        for base, marked in self._maps:
            place = vaddrs - base
            place >>= np.uint64(2)
            result |= marked.take(place.view(np.int64), mode="clip")
        aligned: Bool = vaddrs & np.uint64(3) == 0
        return result & aligned
