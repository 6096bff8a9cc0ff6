"""Variables in pages of zeros: what the file has as zeros is zero, and what it has not was not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.kernel.kernel import Kernel
from prologue.live.audit.layouts import by_release
from prologue.live.audit.variables import Variables
from prologue.live.memory.sources import open_memory
from tests.mini_kernel.build import Spec
from tests.support.built import Mini
from tests.support.cores import NO_PADDR, SLIDE, core, image_of, vmcoreinfo

PAGE = 0x1000


@pytest.mark.parametrize("section", [".rodata", ".data", ".bss"])
def test_a_page_of_zeros(mini: Mini, tmp_path: Path, section: str) -> None:
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
    variables = Variables(open_memory(str(source)), kernel.symbols, SLIDE, layouts, kernel.image)
    assert variables.quad(page + SLIDE) == (None if initialised else 0)
