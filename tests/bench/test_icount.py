"""Counting boots: what the plugin is told, and what happens when a guest never gets to its init."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.sites.kernel import Kernel
from prologue_bench.errors import BenchError, GuestLostError
from prologue_bench.icount import boot as icount
from prologue_bench.icount.boot import Counts, Stores, count_boot
from prologue_bench.icount.parts import plugin, stop_archive
from tests.elf_edit import ElfEdit
from tests.mini_kernel.build import Layout, Spec
from tests.needs import needs_tools

pytestmark = pytest.mark.qemu

Mini = Callable[[Spec], Path]


@pytest.fixture(autouse=True)
def _tools() -> None:
    needs_tools("qemu-system-aarch64", "gcc", "aarch64-linux-gnu-gcc", "cpio")


def test_parts_are_made_once() -> None:
    assert plugin().read_bytes()[:4] == b"\x7fELF"
    archive, stop = stop_archive()
    assert archive.read_bytes()[:6] == b"070701"
    assert stop == 0x77770078
    made = archive.stat(), plugin().stat()
    assert (stop_archive()[0].stat(), plugin().stat()) == made


def test_a_guest_without_init_is_lost(mini: Mini) -> None:
    with pytest.raises(GuestLostError, match=r"init was never reached[^\n]*\n *mini:"):
        count_boot(mini(Spec()), timeout=60)


def test_a_guest_that_hangs_is_lost(mini: Mini) -> None:
    vmlinux = mini(Spec())
    elf = ElfEdit(vmlinux)
    elf.set_word(elf.value("ftrace_init") + 8, 0x14000000)  # b .
    elf.save(vmlinux)
    with pytest.raises(GuestLostError, match="init was not reached within 3 s"):
        count_boot(vmlinux, timeout=3)


def test_a_kernel_without_ftrace_is_refused(mini: Mini) -> None:
    vmlinux = mini(Spec())
    elf = ElfEdit(vmlinux)
    elf.rename_symbol("ftrace_init", "ftrace_off")
    elf.save(vmlinux)
    with pytest.raises(BenchError, match="ftrace_init has 0 callers"):
        count_boot(vmlinux)


def test_boots_that_differ_do_not_count(mini: Mini, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = Stores(0, 0, 0, 0)
    runs = iter([Counts(1000, 10, nothing, nothing), Counts(1001, 10, nothing, nothing)])
    monkeypatch.setattr(icount, "_run", lambda *_: next(runs))
    with pytest.raises(BenchError, match="two boots differ"):
        count_boot(mini(Spec()))


@pytest.mark.parametrize("layout", ["2", "4,2"])
@pytest.mark.parametrize("processed", [False, True])
def test_stores_are_told_apart(mini: Mini, layout: Layout, *, processed: bool) -> None:
    """The static form runs where it is linked, as a kernel does; it has no init, so ftrace_init's return has to do."""
    vmlinux = mini(Spec(layout=layout, form="static"))
    if processed:
        assert main(["patch", str(vmlinux), "--in-place"]) == 0
    kernel = Kernel(vmlinux)
    sites = len(kernel.sites or ())
    counts = icount.count_until(vmlinux, icount._call(kernel)[1])
    assert counts.stores_inside.first == (0 if processed else sites)
    assert counts.stores_inside.literal == (2 * sites if layout == "4,2" else 0)
    assert (counts.stores_inside.second, counts.stores_inside.other) == (0, 0)
    assert 0 < counts.inside < counts.instructions
