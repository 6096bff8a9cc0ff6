"""The marker as each linker leaves it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols
from prologue.kernel.marker import SYMBOL, find_marker
from tests.mini_kernel.build import Form, Spec


@pytest.mark.parametrize("form", ["static", "rela", "rela-applied", "relr"])
def test_the_marker_is_found_and_named(mini: Callable[[Spec], Path], form: Form) -> None:
    """The end of the records is at the same address; which of the two comes last in .symtab is up to the linker."""
    image = ElfImage(mini(Spec(form=form)))
    symbols = Symbols(image)
    marker = find_marker(image, symbols)
    assert marker is not None
    assert (marker.version, marker.flags, marker.sites) == (1, 0, 0)
    assert marker.vaddr == symbols.require(SYMBOL).vaddr == symbols.require("__stop_mcount_loc").vaddr
    assert [symbols.locate(marker.vaddr + offset).symbol for offset in (0, 16)] == [SYMBOL] * 2
