"""An address that a request means."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePlace:
    """An address that a request means.

    ``function`` names the event if no symbol does; ``inlined_in`` is the function that an inlined one is part of.
    ``scope`` is the offset in ``.debug_info`` of the function, inlined or not, whose variables are meant.
    """

    asked: str
    vaddr: int
    ambiguous: bool = False  # the symbol names several addresses, of which this is one
    returns: bool = False
    function: str = ""
    inlined_in: str = ""
    scope: int | None = None
    line: int | None = None  # as asked for
