"""The demo's kernel is what the cross compiler makes of tests/mini_kernel; it boots, and its memory is audited."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from demo import boot_small
from prologue.cli.main import main
from prologue.elf.image import ElfImage
from prologue.examples.listing import KernelListing
from tests.mini_kernel.build import Spec
from tests.mini_kernel.listing import LISTING, SPEC, compiler, listing_of
from tests.mini_kernel.run import run
from tests.support.needs import needs_common_tools, needs_mini_kernel_tools, needs_tools, needs_wheel
from tests.support.tool import Tool

Mini = Callable[[Spec], Path]


@pytest.fixture
def vmlinux(tmp_path: Path) -> Path:
    path = tmp_path / "vmlinux"
    path.write_bytes(KernelListing(LISTING.read_text()).vmlinux())
    return path


def test_it_is_what_the_cross_compiler_makes(mini: Mini, vmlinux: Path) -> None:
    needs_mini_kernel_tools()
    built = mini(SPEC)
    if compiler() not in LISTING.read_text():
        pytest.skip(f"the listing was made by another compiler than {compiler()}")
    assert listing_of(built, compiler()) == LISTING.read_text(), "run python -m tests.mini_kernel.listing"
    ours, theirs = ElfImage(vmlinux), ElfImage(built)
    for section in theirs.sections:
        if section.allocated and section.has_bytes:
            assert ours.read_at(section.addr, section.size) == theirs.read_at(section.addr, section.size), section.name


@pytest.mark.qemu
def test_another_compiler_makes_the_same_of_it(mini: Mini, vmlinux: Path) -> None:
    needs_tools("qemu-system-aarch64")
    needs_mini_kernel_tools()
    changing = {"calls"}  # it counts what the other CPU did meanwhile
    ours, theirs = run(vmlinux), run(mini(SPEC))
    assert ours.passed, ours.lines
    assert {k: v for k, v in ours.values.items() if k not in changing} == {
        k: v for k, v in theirs.values.items() if k not in changing
    }


@pytest.mark.qemu
def test_it_boots_before_and_after(vmlinux: Path, tmp_path: Path) -> None:
    needs_common_tools("qemu-system-aarch64")
    assert run(vmlinux).values["writes"] == "15"
    assert "state=processed writes=0 literals=0 sites=15" in boot_small(processed(vmlinux), tmp_path / "log")


@pytest.mark.qemu
def test_its_memory_is_right(vmlinux: Path, tmp_path: Path, tool: Tool) -> None:
    needs_common_tools("qemu-system-aarch64")
    needs_wheel("drgn")
    dump = tmp_path / "memory"
    boot_small(processed(vmlinux), tmp_path / "log", dump)
    assert main(["live", "audit", str(vmlinux), str(dump), "--json"]) == 0
    # One word that nobody writes is changed in memory, where the dump has it.
    word = ElfImage(vmlinux).read_at(KernelListing(LISTING.read_text()).symbols["say"].vaddr, 32) or b""
    data = bytearray(dump.read_bytes())
    assert data.count(word) >= 1
    data[data.index(word)] ^= 1
    dump.chmod(0o600)  # QEMU lets its owner only read it
    dump.write_bytes(data)
    (finding,) = tool("live", "audit", vmlinux, dump, "--json", status=1).json["findings"]
    assert (finding["code"], finding["symbol"]) == ("PL503", "say")


def processed(vmlinux: Path) -> Path:
    """Write the prologues into it, and return its Image."""
    image = vmlinux.with_name("Image")
    assert main(["patch", str(vmlinux), "--in-place", "--contract", "native"]) == 0
    assert main(["image", str(vmlinux), "-o", str(image)]) == 0
    return image
