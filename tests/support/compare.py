"""What is wrong, as addresses and words: a mask that is not all true says nothing of them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from prologue.live.audit.claims import Claims


def wrong_words(claims: Claims) -> list[str]:
    """Return where memory has another word than the right one, and both."""
    bad = np.flatnonzero(~claims.right)
    each = zip(claims.vaddrs[bad].tolist(), claims.live[bad].tolist(), claims.expected[bad].tolist(), strict=True)
    return [f"{vaddr:#x}: {live:#010x}, and {expected:#010x} is right" for vaddr, live, expected in each]


def addresses(vaddrs: npt.NDArray[Any]) -> list[str]:
    """Return them as texts."""
    return [f"{vaddr:#x}" for vaddr in vaddrs.tolist()]


def not_ascending(values: npt.NDArray[Any]) -> list[tuple[int, int]]:
    """Return each value that is not above the one before it, with that."""
    numbers = values.tolist()
    return [(before, value) for before, value in pairwise(numbers) if value <= before]
