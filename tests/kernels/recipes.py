"""The kernels, one minimal configuration each, and the machines that boot them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from prologue_bench.guest.vm import Machine
from tests.support.debian.kbuild import Recipe

_BASE: Final = ("minimal", "native")
_MEMORY: Final = 512  # MiB: less to dump
# One thread of the host for all CPUs: with one for each, QEMU may execute text that is gone (tests/test_stale_text.py),
# and an oops in a tracer that is off says nothing about a kernel.
_TCG: Final = "tcg,thread=single"
PLAIN: Final = Machine(memory=_MEMORY, accel=_TCG)
# With BTI and PAC; QEMU's own PAC algorithm is quick where the architecture's is slow under TCG.
NEW: Final = Machine(cpu="max,pauth-impdef=on,sve=off", memory=_MEMORY, accel=_TCG)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusual:
    """One kernel.

    ``what`` are its options in words; ``machine`` boots it in both forms, ``others`` the processed one only.
    ``damaged`` kernels are also booted with each kind of damage: one of each form of the records.
    """

    name: str
    what: str
    recipe: Recipe
    machine: Machine = PLAIN
    others: tuple[Machine, ...] = ()
    damaged: bool = False


def _recipe(suite: str, release: str, toolchain: str, *options: str) -> Recipe:
    return Recipe(
        suite=suite,
        source=f"linux-source-{release}",
        toolchain="gcc" if toolchain == "gcc" else "llvm-19",
        options=(*_BASE, *options),
        native=True,
    )


KERNELS: Final = {
    one.name: one
    for one in (
        Unusual(
            name="kcfi",
            what="thin LTO, kCFI",
            recipe=_recipe("trixie", "6.12", "llvm", "lto_kcfi", "startup_tests"),
        ),
        Unusual(
            name="7.2",
            what="livepatch",
            recipe=_recipe("sid", "7.2", "gcc", "samples", "livepatch", "startup_tests"),
            damaged=True,
        ),
        Unusual(
            name="7.3",
            what="livepatch",
            recipe=_recipe("trixie-backports", "7.3", "gcc", "samples", "livepatch", "startup_tests"),
        ),
        Unusual(
            name="scs",
            what="dynamic SCS, PAC, BTI",
            recipe=_recipe("trixie", "6.12", "llvm", "bti", "scs", "startup_tests"),
            machine=NEW,
            others=(PLAIN,),  # without PAC, so that the boot writes the pushes and pops
        ),
        Unusual(
            name="kasan", what="KASAN (generic)", recipe=_recipe("trixie", "6.12", "gcc", "kasan", "startup_tests")
        ),
        Unusual(
            name="64k",
            what="64K pages",
            recipe=_recipe("trixie", "6.12", "gcc", "pages64k", "samples", "startup_tests"),
        ),
        Unusual(
            name="rt", what="PREEMPT_RT", recipe=_recipe("trixie", "6.12", "gcc", "rt", "samples", "startup_tests")
        ),
        Unusual(name="gcov", what="GCOV", recipe=_recipe("bookworm", "6.1", "gcc", "gcov"), damaged=True),
        Unusual(name="kcsan", what="KCSAN", recipe=_recipe("trixie", "6.12", "gcc", "kcsan", "startup_tests")),
        Unusual(
            name="7.2-kcfi",
            what="thin LTO, kCFI, static calls",
            recipe=_recipe("sid", "7.2", "llvm", "small", "lto_cfi", "startup_tests"),
        ),
    )
}
TESTED: Final = ("7.2-kcfi",)
"""What ``make test-all`` builds and boots, too, processed: the latest release, LTO and kCFI are one build."""
