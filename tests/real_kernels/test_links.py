"""Links of built kernels: GNU ld and LLD follow an order, and what comes out is a kernel that passes verify."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.kernel.kernel import Kernel
from prologue_bench.links.making import link_directories
from prologue_bench.links.recorded import read_record
from tests.real_kernels.native import RECIPES
from tests.support.needs import needs_built_kernel
from tests.support.trees import untouched

pytestmark = [pytest.mark.kernel, pytest.mark.builds, pytest.mark.extended]


@pytest.mark.parametrize("version", RECIPES)
def test_links_of_a_built_kernel(version: str, tmp_path: Path) -> None:
    built = needs_built_kernel(RECIPES[version])
    before = untouched(built.tree)
    assert main(["bench", "links", str(built.out), "-n", "2", "-o", str(tmp_path)]) == 0
    assert untouched(built.tree) == before
    for directory in link_directories(tmp_path):
        link, symbols = read_record(directory), Kernel(directory / "vmlinux").symbols
        assert link.plan is not None
        assert link.moved > 400
        # An object each that has a function of this name and no other.
        named = {"kernel/fork.o": "kernel_clone", "mm/mmap.o": "do_mmap", "fs/read_write.o": "vfs_read"}
        order = [match[1] for unit in link.plan.order if (match := re.search(r":(.*)\(", unit)) and match[1] in named]
        found = [(symbol.vaddr, name) for name in order if (symbol := symbols.find(named[name]))]
        assert [name for _, name in sorted(found)] == order
        assert len(order) == 3
