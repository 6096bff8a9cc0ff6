"""A dump of a whole machine, with page tables of our own making, read by drgn."""

from __future__ import annotations

import io
import platform
import struct
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from elftools.elf.elffile import ELFFile

from tests.live.overlay.overlaid import overlay
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.support import cores
from tests.support.built import Mini
from tests.support.cores import RAM, SLIDE, core, machine, vmcoreinfo
from tests.support.elf_edit import MOV, ElfEdit
from tests.support.needs import needs_wheel
from tests.support.tool import Tool

STALE = (
    vmcoreinfo(SLIDE - 0x200000)[2]
    + b"NUMBER(VA_BITS)=48\nNUMBER(TCR_EL1_T1SZ)=0x10\nNUMBER(PHYS_OFFSET)=0x40000000\n"
    + f"NUMBER(kimage_voffset)={SLIDE + 0xFFFF800008000000 - RAM:#x}\n".encode()
    + f"SYMBOL(swapper_pg_dir)={SLIDE + 0xFFFF800008000000:x}\n\0".encode()
)


@pytest.fixture
def vmlinux(mini: Mini) -> Path:
    needs_wheel("drgn")
    return mini(Spec(form="relr"))


@pytest.mark.parametrize("stale", [b"", STALE], ids=["one VMCOREINFO", "another boot's before it"])
def test_a_dump_without_note(vmlinux: Path, stale: bytes, tool: Tool) -> None:
    """VMCOREINFO is found in memory; freed init text is not mapped, and what has its pages now is not taken."""
    elf = ElfEdit(vmlinux)
    init = elf.elf.get_section_by_name(".init.text")
    freed = range(init["sh_addr"], init["sh_addr"] + init["sh_size"])
    leaf = elf.value("work_leaf")
    (said, complaint, _), out = overlay(tool, vmlinux, machine(vmlinux, {leaf: MOV}, freed, stale))
    assert complaint == ""
    assert f"slide {SLIDE:#x}" in said
    assert f".init.text      not in memory after boot: {init['sh_size'] // 4} words as linked" in said
    elf.set_word(leaf, MOV)
    assert out.read_bytes() == bytes(elf.data)


def test_a_dump_of_a_machine_that_was_rebooted(vmlinux: Path, tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The earlier kernel is there, with its page tables; a CPU executes the later one."""
    earlier, leaf = _memory_of(machine(vmlinux, {}, slide=SLIDE - 0x200000)), ElfEdit(vmlinux).value("work_leaf")
    monkeypatch.setattr(cores, "RAM", RAM + len(earlier))
    segments = [(RAM, RAM, earlier), (cores.RAM, cores.RAM, _memory_of(machine(vmlinux, {leaf: MOV})))]
    for pc, slide in ((0, SLIDE - 0x200000), (leaf + SLIDE, SLIDE)):  # user space, and the kernel
        state = struct.pack("<Q", pc).rjust(376, b"\0").ljust(392, b"\0")
        printed, _ = overlay(tool, vmlinux, core(segments, [("CORE", 1, state)]))
        assert f"slide {slide:#x}" in printed.out


def _memory_of(dump: bytes) -> bytes:
    (load,) = [s for s in cast("Any", ELFFile(io.BytesIO(dump))).iter_segments() if s["p_type"] == "PT_LOAD"]
    return bytes(load.data())


def test_a_dump_of_another_kernel(vmlinux: Path, tool: Tool) -> None:
    start = core([(RAM, RAM, STALE.ljust(8192, b"\0"))])
    printed, out = overlay(tool, vmlinux, start, status=2)
    assert "no VMCOREINFO in this dump" in printed.err
    assert not out.exists()


def test_modules_need_dwarf(vmlinux: Path, mini: Mini, tool: Tool) -> None:
    source, out = vmlinux.with_name("dump"), vmlinux.with_name("out")
    source.write_bytes(machine(vmlinux, {}))
    modules = mini(ModuleSpec()).parent
    command = ["live", "overlay", str(vmlinux), str(source), "--modules", str(modules), "-o", str(out)]
    assert "needs the vmlinux with its DWARF" in tool(*command, status=2).err
    assert not out.exists()


@pytest.mark.parametrize(
    ("computer", "said"),
    [("x86_64", "pip install 'drgn>="), ("aarch64", "drgn has no wheel for aarch64: apt-get install gcc")],
)
def test_without_drgn(computer: str, said: str, mini: Mini, monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    monkeypatch.setitem(sys.modules, "drgn", None)
    monkeypatch.setattr(platform, "machine", lambda: computer)
    vmlinux = mini(Spec(form="relr"))
    printed, out = overlay(tool, vmlinux, machine(vmlinux, {}), status=2)
    assert said in printed.err
    assert not out.exists()
