"""One place that was asked for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePlace:
    """One address that was asked for.

    ``function`` names the event if there is no symbol to do so; ``inlined_in`` is the function that an inlined one is
    part of, and ``scope`` the offset of that in ``.debug_info``.
    """

    asked: str
    vaddr: int
    ambiguous: bool = False  # the symbol names several addresses, of which this is one
    returns: bool = False
    function: str = ""
    inlined_in: str = ""
    scope: int | None = None
    line: int | None = None  # as asked for
