"""Truth tables of how far processing of a file got.

Writing goes sites, then records or the init stub, then the marker. Each state that a kill can leave is ``unfinished``;
what no run of ours leaves is in no row, and ``mixed``.
"""

from __future__ import annotations

from typing import Final, Literal

from prologue.arrays import Bool
from prologue.kernel.init_stub import InitStub
from prologue.kernel.marker import Marker
from prologue.kernel.sites import Sites

State = Literal["untouched", "processed", "unfinished", "mixed", "no sites"]
Share = Literal["none", "some", "all"]

# Sites that hold the MOV, records that are moved, the marker's flag.
_NATIVE: Final[dict[tuple[Share, Share, bool], State]] = {
    ("none", "none", False): "untouched",
    ("some", "none", False): "unfinished",
    ("all", "none", False): "unfinished",
    ("all", "some", False): "unfinished",
    ("all", "all", False): "unfinished",
    ("all", "all", True): "processed",
}
# Version 2 of the marker: what lies between has the flag WRITING, and its records cannot be read.
_NATIVE_2: Final[dict[tuple[Share, Share, bool], State]] = {
    ("none", "none", False): "untouched",
    ("all", "all", True): "processed",
}
# Sites that hold the MOV, and ftrace_init_nop; records stay. A kernel whose ftrace_init_nop is not recognised was not
# processed under this contract.
_STOCK: Final[dict[tuple[Share, str], State]] = {
    ("none", "live"): "untouched",
    ("none", "unrecognised"): "untouched",
    ("some", "live"): "unfinished",
    ("some", "unrecognised"): "unfinished",
    ("all", "live"): "unfinished",
    ("all", "unrecognised"): "unfinished",
    ("all", "unfinished"): "unfinished",
    ("all", "neutralised"): "processed",
}
# Sites that hold the MOV, records that are moved: ours stay (decision 5), but modules with moved ones are known.
_MODULE: Final[dict[tuple[Share, Share], State]] = {
    ("none", "none"): "untouched",
    ("some", "none"): "unfinished",
    ("all", "none"): "processed",
    ("all", "all"): "processed",
}


def native_state(sites: Sites, marker: Marker) -> State:
    """Return the state of a vmlinux that carries the marker."""
    states = _NATIVE if marker.version == 1 else _NATIVE_2
    return _of(sites, states.get((_share(sites.has_mov), _share(sites.moved), marker.processed)))


def stock_state(sites: Sites, stub: InitStub) -> State:
    """Return the state of a vmlinux without it."""
    return _of(sites, None if sites.moved.any() else _STOCK.get((_share(sites.has_mov), stub.state)))


def module_state(sites: Sites) -> State:
    """Return the state of a module."""
    return _of(sites, _MODULE.get((_share(sites.has_mov), _share(sites.moved))))


def _of(sites: Sites, state: State | None) -> State:
    """Return the state of a truth table, if each site is a pair as compiled or as processed."""
    if not len(sites):
        return "no sites"
    return state if state and bool((sites.has_mov | sites.has_nop).all()) else "mixed"


def _share(of_sites: Bool) -> Share:
    return "none" if not of_sites.any() else "all" if of_sites.all() else "some"
