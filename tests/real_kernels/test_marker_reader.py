"""PL407 on stock kernels to which objcopy added the marker, wherever that is; booted/ has kernels that read it."""

from __future__ import annotations

import random
import struct
import subprocess
from pathlib import Path

import pytest

from prologue.kernel.kernel import Kernel
from prologue.kernel.marker import MAGIC, SYMBOL
from tests.mutation.world import World
from tests.support.needs import needs_kernel, needs_tools
from tests.support.tool import Tool

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(1800)]

OBJCOPY = "aarch64-linux-gnu-objcopy"
MARKER = struct.pack("<QIIQ", MAGIC, 1, 0, 0)
SUITES = ("bookworm", "trixie")


@pytest.fixture(scope="module", params=SUITES)
def marked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stock kernel with a marker of its own section, complete and well-formed."""
    needs_tools(OBJCOPY)
    kernel, directory = needs_kernel(request.param), tmp_path_factory.mktemp("marked")
    end = Kernel(kernel.vmlinux).symbols.require("_end")
    marker, vmlinux = directory / "marker", directory / "vmlinux"
    marker.write_bytes(MARKER)
    subprocess.run(
        [OBJCOPY, "--add-section", f".marker={marker}", "--set-section-flags", ".marker=alloc,load,data,contents",
         "--change-section-address", f".marker={end.vaddr + 0x10000:#x}",
         "--add-symbol", f"{SYMBOL}=.marker:0,global,object", str(kernel.vmlinux), str(vmlinux)],
        check=True, capture_output=True,
    )  # fmt: skip
    return vmlinux


def test_a_stock_kernel_with_the_symbol_is_refused(marked: Path, tool: Tool) -> None:
    before = marked.stat().st_mtime_ns
    said = tool("patch", marked, "--in-place", status=2).err
    assert "PL407 kernel-ignores-marker: the kernel does not read its marker: it is in .marker" in said
    assert marked.stat().st_mtime_ns == before
    tool("verify", marked, "--select", "PL407", status=1)
    assert "PL407 kernel-ignores-marker (fatal): 1" in tool("scan", marked).out


def test_no_place_for_a_marker_in_a_stock_kernel(marked: Path) -> None:
    """On data that the boot reads, beside it, in tables, and in gaps: the code was linked without the marker."""
    world = World(marked, random.Random(1))  # noqa: S311 - not a secret
    row = world.row(SYMBOL)
    symbols, places = world.original.symbols, list[int]()
    for name in (
        "__stop_mcount_loc", "__start_mcount_loc", "ftrace_filter_buf", "ftrace_notrace_buf", "boot_command_line",
        "ftrace_disabled", "ftrace_pages", "ftrace_pages_start", "ftrace_enabled", "__initcall_start", "jiffies",
    ):  # fmt: skip
        found = symbols.find(name)
        if found is not None:
            places += [(found.vaddr & ~7) + distance for distance in (-32, -24, -16, -8, 0, 8, 16)]
    for name, count in ((".init.data", 60), (".data", 20)):
        section = world.section(name)
        places += [section.addr + 8 * world.seed.randrange(section.size // 8 - 3) for _ in range(count)]
    assert len(places) > 100
    for place in places:
        there = world.original.image.section_at(place)
        if there is None or not there.has_bytes:
            continue
        world.write(world.offset(place), MARKER)
        world.set_symbol(row, value=place)
        kernel = world.open()
        assert isinstance(kernel, Kernel)
        assert kernel.marker is not None
        assert kernel.native_problem is not None, hex(place)
        world.restore()
