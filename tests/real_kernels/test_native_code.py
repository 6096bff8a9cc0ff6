"""PL407 on real kernels: those with our patch, stock ones with the symbol only, and changes without a meaning."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.insn import a64
from prologue.sites.kernel import Kernel
from prologue.sites.marker import MAGIC, VERSION, Marker
from prologue.sites.native_code import FollowedBoot
from tests.mutation.pl407 import ADJUST, INIT_NOP, READER, body, gone, inverted
from tests.mutation.world import World
from tests.real_kernels.native import RECIPES
from tests.support.needs import needs_built_kernel, needs_kernel, needs_tools

pytestmark = [pytest.mark.kernel, pytest.mark.builds, pytest.mark.timeout(1800)]

OBJCOPY = "aarch64-linux-gnu-objcopy"
Change = Callable[[World], None]


@pytest.fixture(params=list(RECIPES))
def native(request: pytest.FixtureRequest) -> Path:
    return needs_built_kernel(RECIPES[request.param]).vmlinux


def test_a_patched_kernel_is_recognised_unprocessed_and_processed(native: Path, tmp_path: Path) -> None:
    assert Kernel(native).native_problem is None
    vmlinux = Path(shutil.copy(native, tmp_path / "vmlinux"))
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    processed = Kernel(vmlinux)
    assert processed.state == "processed"
    assert processed.native_problem is None
    assert main(["verify", str(vmlinux), "--select", "PL4"]) == 0


@pytest.mark.parametrize(
    ("suite", "said"),
    [
        ("bookworm", "ftrace_init_nop calls aarch64_insn_patch_text_nosync with the marker set"),
        ("trixie", "ftrace_call_adjust does not return records as they are with the marker set"),
    ],
)
def test_a_stock_kernel_with_the_symbol_is_refused(
    suite: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A marker that objcopy added, complete and well-formed: no code reads it."""
    needs_tools(OBJCOPY)
    kernel = needs_kernel(suite)
    end = Kernel(kernel.vmlinux).symbols.find("_end")
    assert end is not None
    marker, vmlinux = tmp_path / "marker", tmp_path / "vmlinux"
    marker.write_bytes(struct.pack("<QIIQ", MAGIC, VERSION, 0, 0))
    subprocess.run(
        [OBJCOPY, "--add-section", f".marker={marker}", "--set-section-flags", ".marker=alloc,load,data,contents",
         "--change-section-address", f".marker={end.vaddr + 0x10000:#x}",
         "--add-symbol", "__ftrace_prologue_marker=.marker:0,global,object", str(kernel.vmlinux), str(vmlinux)],
        check=True, capture_output=True,
    )  # fmt: skip
    before = vmlinux.stat().st_mtime_ns
    assert main(["patch", str(vmlinux), "--in-place"]) == 2
    assert vmlinux.stat().st_mtime_ns == before
    error = capsys.readouterr().err
    assert "PL407 kernel-ignores-marker" in error
    assert said in error
    assert main(["verify", str(vmlinux), "--select", "PL407"]) == 1
    assert main(["scan", str(vmlinux)]) == 0
    assert "PL407 kernel-ignores-marker (fatal): 1" in capsys.readouterr().out


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_a_stock_kernel_does_all_that_a_clear_marker_asks_for(suite: str) -> None:
    """A distribution's compiler and options: what is not recognised there with the marker set is no matter of taste."""
    kernel = Kernel(needs_kernel(suite).vmlinux)
    end = kernel.symbols.find("_end")
    assert end is not None
    boot = FollowedBoot(kernel, Marker(end.vaddr + 0x10000, 0, 0, 0))
    assert boot.find_problem(processed=False) is None
    assert boot.find_problem(processed=True) is not None


def _replace(world: World, places: list[int], mask: int, value: int, new: Callable[[int], int]) -> None:
    """Write something else over every instruction of a kind; there must be one."""
    found = [place for place in places if world.word(place) & mask == value]
    assert found
    for place in found:
        world.set_word(place, new(world.word(place)))


def _another_and(world: World) -> None:
    """AND Wd, Wn, #1 is UBFX Wd, Wn, #0, #1."""
    _replace(world, body(world, READER), 0xFFFFFC00, 0x12000000, lambda word: 0x53000000 | word & 0x3FF)


def _wider_mask(world: World) -> None:
    """AND with 3, where only bit 0 is ever set."""
    _replace(world, body(world, READER), 0xFFFFFC00, 0x12000000, lambda word: word | 0x400)


def _test_of_a_bit(world: World) -> None:
    """CBZ Wt of a bool is TBZ Wt, #0, and CBNZ likewise."""
    load = next(p for p in body(world, INIT_NOP) if world.word(p) & 0xFFC00000 == 0x39400000)
    places = [p for p in body(world, INIT_NOP) if p > load][:4]
    tests = [p for p in places if world.word(p) & 0xFE00001F == 0x34000000 | world.word(load) & 31]
    assert tests
    word = world.word(tests[0])
    distance = word >> 5 & 0x3FFF
    assert word >> 18 & 0x3F in (0, 0x3F)  # of 19 bits, so that 14 say the same
    world.set_word(tests[0], 0x36000000 | word & 0x01000000 | distance << 5 | word & 31)


def _other_zero(world: World) -> None:
    """MOV W0, #0 and MOV W0, WZR."""
    places = [p for p in body(world, INIT_NOP) if world.word(p) in (a64.MOV_W0_0, 0x2A1F03E0)]
    assert places
    for place in places:
        world.set_word(place, 0x2A1F03E0 if world.word(place) == a64.MOV_W0_0 else a64.MOV_W0_0)


def _whole_register(world: World) -> None:
    """CBZ Xt where LDRB has cleared the rest of the register."""
    load = next(p for p in body(world, INIT_NOP) if world.word(p) & 0xFFC00000 == 0x39400000)
    kind = (0x7E00001F, 0x34000000 | world.word(load) & 31)
    _replace(world, [p for p in body(world, INIT_NOP) if load < p <= load + 16], *kind, lambda word: word | 1 << 31)


@pytest.mark.parametrize("change", [_another_and, _wider_mask, _test_of_a_bit, _other_zero, _whole_register])
def test_what_changes_no_meaning_is_not_reported(native: Path, change: Change) -> None:
    world = World(native, random.Random(1))  # noqa: S311 - not a secret
    before = bytes(world.memory)
    change(world)
    assert bytes(world.memory) != before
    mutated = world.open()
    assert isinstance(mutated, Kernel)
    assert mutated.native_problem is None


@pytest.mark.parametrize("change", [inverted(*ADJUST), gone(*ADJUST)])
def test_in_61_the_range_of_a_record_says_the_same_as_the_flag(change: Change) -> None:
    """``ftrace_prologues_built && is_kernel(addr)``: the result is the flag, however the first branch goes."""
    world = World(needs_built_kernel(RECIPES["6.1"]).vmlinux, random.Random(1))  # noqa: S311 - not a secret
    change(world)
    mutated = world.open()
    assert isinstance(mutated, Kernel)
    assert mutated.native_problem is None
