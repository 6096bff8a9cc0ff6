"""Builds modules of ours for Debian's kernels, in a tree that is prepared once."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from prologue_bench.guest.deb import PackageFiles
from prologue_bench.host import cache
from tests.support.debian.kbuild import CROSS, Recipe, make
from tests.support.debian.kernels import DebianKernel
from tests.support.debian.source import link_source
from tests.support.needs import needs_packages, needs_tools

_STEPS: Final = 1  # raise it with any change of what is made here


def build_modules(kernel: DebianKernel, source: Path) -> None:
    """Compile the modules of the directory ``source``, with this machine's GCC, for that kernel."""
    needs_tools("make", "flex", "bison", "bc", f"{CROSS}gcc")
    recipe = Recipe(suite=kernel.suite, source=f"linux-source-{'.'.join(kernel.release.split('.')[:2])}")
    deb, headers = needs_packages(recipe.suite, recipe.source, f"linux-headers-{kernel.release}")

    def prepare(tree: Path) -> None:
        link_source(deb, tree)
        (tree / "out").mkdir()
        files = PackageFiles(headers)
        for name in (".config", "Module.symvers"):  # the versions of what the kernel exports
            content = files.find(name)
            assert content is not None, name
            (tree / "out" / name).write_bytes(content)
        _make(tree, recipe, kernel, "-s", "olddefconfig")
        _make(tree, recipe, kernel, "-s", "-j2", "modules_prepare")

    tree = cache.produce(f"prepared/{headers.stem}-{_STEPS}", prepare)
    _make(tree, recipe, kernel, f"M={source}", "modules")


def _make(tree: Path, recipe: Recipe, kernel: DebianKernel, *arguments: str) -> None:
    done = make(tree, recipe, f"KERNELRELEASE={kernel.release}", *arguments)
    assert done.returncode == 0, done.stdout[-2000:]
