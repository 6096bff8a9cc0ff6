"""How far processing got: every combination of what a file can show."""

from __future__ import annotations

from itertools import product
from typing import Literal

import numpy as np
import pytest

from prologue.insn.a64 import MOV_X9_X30, NOP
from prologue.kernel.init_stub import InitStub
from prologue.kernel.marker import Marker
from prologue.kernel.sites import Sites
from prologue.kernel.state import Share, module_state, native_state, stock_state

COUNT = {"none": 0, "some": 2, "all": 4}
SHARES: tuple[Share, ...] = ("none", "some", "all")
STUBS: tuple[Literal["live", "neutralised", "unfinished", "unrecognised"], ...] = (
    "live", "neutralised", "unfinished", "unrecognised",
)  # fmt: skip


def made(mov: Share, moved: Share, word1: int = NOP) -> Sites:
    """Four sites."""
    index = np.arange(4)
    return Sites(
        layout="2",
        record=index,
        moved=index < COUNT[moved],
        first=np.uint64(0x1000) + index.astype(np.uint64) * np.uint64(64),
        word0=np.where(index < COUNT[mov], MOV_X9_X30, NOP).astype(np.uint32),
        word1=np.full(4, word1, np.uint32),
        before=np.zeros(4, np.uint32),
    )


def marker(processed: bool) -> Marker:
    return Marker(0x2000, 0x2000, int(processed), 4)


def test_native() -> None:
    known = {
        ("none", "none", False): "untouched",
        ("all", "all", True): "processed",
        ("some", "none", False): "unfinished",  # killed among the sites
        ("all", "none", False): "unfinished",  # between sites and records
        ("all", "some", False): "unfinished",  # among the records
        ("all", "all", False): "unfinished",  # before the marker
    }
    for mov, moved, flag in product(SHARES, SHARES, (False, True)):
        expected = known.get((mov, moved, flag), "mixed")
        assert native_state(made(mov, moved), marker(flag)) == expected, (mov, moved, flag)


def test_stock() -> None:
    for mov, moved, stub in product(SHARES, SHARES, STUBS):
        if moved != "none":
            expected = "mixed"  # no stock kernel accepts a moved record
        elif stub in ("live", "unrecognised"):
            expected = "untouched" if mov == "none" else "unfinished"
        else:
            expected = {"neutralised": "processed", "unfinished": "unfinished"}[stub] if mov == "all" else "mixed"
        assert stock_state(made(mov, moved), InitStub(stub)) == expected, (mov, moved, stub)


def test_modules() -> None:
    known = {("none", "none"): "untouched", ("some", "none"): "unfinished", ("all", "none"): "processed",
             ("all", "all"): "processed"}  # fmt: skip
    for mov, moved in product(SHARES, SHARES):
        assert module_state(made(mov, moved)) == known.get((mov, moved), "mixed"), (mov, moved)


@pytest.mark.parametrize("mov", SHARES)
def test_what_is_no_pair_is_mixed(mov: Share) -> None:
    sites = made(mov, "none", word1=0x94000001)
    assert {native_state(sites, marker(False)), stock_state(sites, InitStub("live")), module_state(sites)} == {"mixed"}
