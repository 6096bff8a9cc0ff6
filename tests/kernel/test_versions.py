"""Modules of another release: the CRCs of symbols decide whether a kernel takes them, as its module loader does."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.mini_kernel.build import Spec, run_command
from tests.mini_module.build import ModuleSpec
from tests.rules.records import set_release
from tests.support.built import Mini
from tests.support.elf_edit import edit
from tests.support.tool import Tool

OBJCOPY = "aarch64-linux-gnu-objcopy"


def module(mini: Mini, **crcs: int) -> Path:
    """Make a module of 6.10.0 that was built with these CRCs."""
    ko = mini(ModuleSpec(release="6.10.0"))
    table = ko.with_name("versions")
    table.write_bytes(b"".join(struct.pack("<Q56s", crc, name.encode()) for name, crc in crcs.items()))
    flags = "--set-section-flags=__versions=alloc,readonly"
    run_command([OBJCOPY, f"--add-section=__versions={table}", flags, str(ko)])
    return ko


@pytest.fixture(params=["labels", "absolute symbols"])
def vmlinux(mini: Mini, request: pytest.FixtureRequest) -> Path:
    """Make a kernel of 6.12.0 that exports printk and kfree: by labels of words, or as before 5.19."""
    path = mini(Spec(contract="native"))
    with edit(path) as elf:
        set_release(elf, "6.12.0")
    if request.param == "labels":
        words = path.with_name("words")
        words.write_bytes(struct.pack("<II", 0x1111, 0x2222))
        command = [OBJCOPY, f"--add-section=__kcrctab={words}", "--set-section-flags=__kcrctab=alloc,readonly"]
        command += ["--change-section-address=__kcrctab=0xffff800090000000"]
        command += ["--add-symbol=__crc_printk=__kcrctab:0,local", "--add-symbol=__crc_kfree=__kcrctab:4,local"]
    else:
        command = [OBJCOPY, "--add-symbol=__crc_printk=0x1111", "--add-symbol=__crc_kfree=0x2222"]
    run_command([*command, str(path)])
    return path


def verify(ko: Path, vmlinux: Path) -> int:
    return main(["verify", str(ko), "--vmlinux", str(vmlinux)])


def test_a_module_with_the_kernels_crcs_is_judged(mini: Mini, vmlinux: Path, tool: Tool) -> None:
    said = tool("verify", module(mini, printk=0x1111, kfree=0x2222), "--vmlinux", vmlinux).out
    note = "built for 6.10.0, judged for 6.12.0: CRCs of 2 symbols agree"
    assert note in said


def test_another_crc_is_another_kernel(mini: Mini, vmlinux: Path, tool: Tool) -> None:
    said = tool("verify", module(mini, printk=0x1111, kfree=0x2223), "--vmlinux", vmlinux, status=2).err
    assert "built for 6.10.0: 1 of 2 CRCs of symbols differ from" in said
    assert "kfree: that is not its kernel" in said


def test_a_symbol_that_only_the_kernel_can_have_must_be_there(mini: Mini, vmlinux: Path, tool: Tool) -> None:
    """This module depends on no other."""
    said = tool("verify", module(mini, printk=0x1111, gone=0x2222), "--vmlinux", vmlinux, status=2).err
    assert "6.12.0, which does not export gone: that is not its kernel" in said


def test_without_crcs_the_release_decides(mini: Mini, vmlinux: Path, tool: Tool) -> None:
    said = tool("verify", mini(ModuleSpec(release="6.10.0")), "--vmlinux", vmlinux, status=2).err
    assert "built for 6.10.0, but" in said


def test_of_two_kernels_with_its_crcs_the_one_of_its_release_loads_it(mini: Mini, vmlinux: Path, tool: Tool) -> None:
    ko, own = module(mini, printk=0x1111), vmlinux.with_name("own")
    own.write_bytes(vmlinux.read_bytes().replace(b"Linux version 6.12.0", b"Linux version 6.10.0"))
    assert tool("verify", vmlinux, own, ko).out.rstrip().endswith(f"; modules of {own})")
