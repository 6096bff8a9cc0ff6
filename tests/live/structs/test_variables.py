"""Variables in pages of zeros: what the file has as zeros is zero, and what it has not was not read."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from prologue.elf.symbols import Symbol, Symbols
from prologue.kernel.kernel import Kernel
from prologue.live.memory.sources import open_memory
from prologue.live.structs.layouts import by_release
from prologue.live.structs.variables import Variables
from tests.mini_kernel.build import Spec
from tests.support.built import Mini
from tests.support.cores import NO_PADDR, SLIDE, core, image_of, vmcoreinfo

PAGE = 0x1000


class AfterInit:
    """Symbols of a kernel whose page there is read-only after init."""

    def __init__(self, page: int) -> None:
        self._ends = {"__start_ro_after_init": page - 8, "__end_ro_after_init": page + PAGE}

    def find(self, name: str) -> Symbol | None:
        return Symbol(name, self._ends[name], 0) if name in self._ends else None


@pytest.mark.parametrize("section", [".rodata", ".data", ".bss"])
def test_a_page_of_zeros(mini: Mini, tmp_path: Path, section: str) -> None:
    """Boot may set what is read-only after init to zero."""
    kernel = Kernel(mini(Spec(form="relr", labels=True)))
    start, image = image_of(kernel.path)
    found = kernel.image.section(section)
    if found is None:
        pytest.skip(f"the mini kernel has no {section}")
    page = found.addr // PAGE * PAGE
    others = [s for s in kernel.image.sections if s.allocated and s.has_bytes and s.addr < page + PAGE]
    initialised = any(s.addr + s.size > page for s in others)
    image[page - start : page - start + PAGE] = bytes(PAGE)
    source = tmp_path / "core"
    source.write_bytes(core([(start + SLIDE, NO_PADDR, bytes(image))], [vmcoreinfo()]))
    layouts = by_release((6, 1), realtime=False)
    for symbols, value in ((kernel.symbols, None if initialised else 0), (cast("Symbols", AfterInit(page)), 0)):
        variables = Variables(open_memory(str(source)), symbols, SLIDE, layouts, kernel.image)
        assert variables.quad(page + SLIDE) == value
