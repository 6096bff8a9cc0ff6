"""The kernels with our patch that the tests build: two generations, two toolchains, two encodings of the records."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from prologue.kernel.kernel import Kernel
from prologue_bench.guest.vm import Machine
from tests.support.debian.kbuild import Recipe

# GCC and GNU ld: layout 2, records in RELA addends, sorted at boot, modules that the build processes and signs.
# Clang and LLD: layout 4,2 with landing pads, records in RELR slots, sorted by the build, weak ones zeroed, BTF.
RECIPES: Final = {
    "6.1": Recipe(
        suite="bookworm",
        source="linux-source-6.1",
        toolchain="gcc",
        options=("minimal", "small", "native", "signed", "kgdb"),
        native=True,
    ),
    "6.12": Recipe(
        suite="trixie",
        source="linux-source-6.12",
        toolchain="llvm",
        options=("minimal", "small", "native", "bti", "btf"),
        native=True,
    ),
}
# A machine that has BTI and PAC; QEMU's own PAC algorithm is quick where the architecture's is slow under TCG.
MACHINES: Final = {"6.1": Machine(), "6.12": Machine(cpu="max,pauth-impdef=on,sve=off")}


def entry_offsets(vmlinux: Path, function: str) -> tuple[int, int]:
    """Where the first and the second slot of a function are, in bytes from its symbol."""
    kernel = Kernel(vmlinux)
    symbol, sites = kernel.symbols.find(function), kernel.sites
    assert symbol is not None
    assert sites is not None
    (site,) = [k for k, first in enumerate(sites.first.tolist()) if 0 <= first - symbol.vaddr <= 8]
    return int(sites.first[site]) - symbol.vaddr, int(sites.second[site]) - symbol.vaddr
