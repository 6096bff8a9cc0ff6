"""Links of built kernels: linkers follow an order, what comes out passes verify, and no make writes into a build."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from types import MappingProxyType

import pytest

from prologue.cli.main import main
from prologue.kernel.kernel import Kernel
from prologue_bench.errors import BenchError
from prologue_bench.links.making import link_directories
from prologue_bench.links.recorded import read_record
from prologue_bench.links.relink import _environment, _mirror
from prologue_bench.links.tree import _CONFIG, _RECORDED, BuildTree, _require_configured
from tests.real_kernels.native import RECIPES
from tests.support.cases import one_tested
from tests.support.debian.kbuild import CROSS
from tests.support.debian.source import unpacked_source
from tests.support.needs import needs_built_kernel, needs_packages, needs_tools
from tests.support.trees import SOURCES, untouched

pytestmark = [pytest.mark.kernel, pytest.mark.thorough]


@pytest.mark.builds
@pytest.mark.extended
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


FRAGMENT = "CONFIG_SMP=y\nCONFIG_KALLSYMS=y\nCONFIG_FTRACE=y\nCONFIG_FUNCTION_TRACER=y\nCONFIG_DYNAMIC_FTRACE=y\n"


@pytest.mark.parametrize("series", one_tested("7.2", "6.1", "6.12", "7.3"))
def test_make_writes_nothing_into_a_build_elsewhere(
    series: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_tools("make", "gcc", "flex", "bison", f"{CROSS}gcc")
    source, out = unpacked_source(*needs_packages(*SOURCES[series])), tmp_path / "out"
    (tmp_path / "fragment").write_text(FRAGMENT)
    words = ["make", "-s", "-C", str(source), f"O={out}", "ARCH=arm64", f"CROSS_COMPILE={CROSS}"]
    for goal in (f"KCONFIG_ALLCONFIG={tmp_path / 'fragment'}", "allnoconfig"), ("syncconfig",):
        subprocess.run([*words, *goal], check=True, capture_output=True)
    recorded = (out / f"{_CONFIG}.cmd").read_text()
    _require_configured(out, str(source), recorded)
    os.utime(out / _CONFIG, (0, 0))  # every Kconfig file of the source is newer now
    with pytest.raises(BenchError, match="is newer than the configuration that was built"):
        _require_configured(out, str(source), recorded)
    tree = BuildTree(
        out=out, source=str(source), command=("", "", ""), script="", units=(),
        variables=MappingProxyType(dict(_RECORDED.findall(recorded))),
    )  # fmt: skip
    monkeypatch.setenv("KBUILD_OUTPUT", str(out))
    before = untouched(out)
    (tmp_path / "links").mkdir()
    environment = _environment(tree, _mirror(tree, tmp_path / "links"))
    assert (environment["SRCARCH"], environment["srctree"]) == ("arm64", str(source))
    assert "-I./include" in environment["LINUXINCLUDE"]
    assert untouched(out) == before
