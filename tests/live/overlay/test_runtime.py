"""Run-time addresses: the file must become what a linker writes for that address."""

from __future__ import annotations

import itertools
import os
import subprocess
from pathlib import Path

import pytest

from prologue.elf.image import ElfImage
from prologue.errors import InputError
from prologue.live.overlay.runtime import carry_out, debug_addresses, find_moves
from tests.live.overlay.overlaid import overlay
from tests.mini_kernel import build as mini_build
from tests.mini_kernel.build import Form, Spec, build, link, run_command
from tests.support.cores import SLIDE, running
from tests.support.elf_edit import ElfEdit
from tests.support.needs import needs_mini_kernel_tools, needs_tools
from tests.support.tool import Tool

BASE = 0xFFFF800008000000
SLIDES = (SLIDE, 0x3A0743E00000, 0x10000)


def with_dwarf(spec: Spec, directory: Path, version: int) -> tuple[Path, list[str]]:
    """The mini kernel with debug information, and its objects."""
    objects: list[str] = []

    def run(command: list[str]) -> None:
        if "-c" in command:
            objects.append(command[-1])
        run_command([f"-gdwarf-{version}" if word == "-g0" else word for word in command])

    return build(spec, directory, run), objects


def moved(path: Path, slide: int) -> bytes:
    image = ElfImage(path)
    out = path.with_name("moved")
    out.write_bytes(bytes(image.content))
    fd = os.open(out, os.O_RDWR)
    try:
        carry_out(find_moves(image, slide, ()), fd)
    finally:
        os.close(fd)
    return out.read_bytes()


FORMS: tuple[Form, ...] = ("rela-applied", "relr")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("form", "compiler", "version"),
    [*itertools.product(FORMS, ("gcc", "clang"), (5,)), ("relr", "gcc", 4), ("relr", "clang", 4)],
)
def test_it_is_what_the_linker_writes_for_that_address(
    form: Form, compiler: mini_build.Compiler, version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte for byte: headers, symbols, relocations, the words that they fill in, and DWARF of both compilers."""
    needs_mini_kernel_tools()
    spec = Spec(form=form, compiler=compiler)
    first, objects = with_dwarf(spec, tmp_path, version)
    assert len(debug_addresses(ElfImage(first), BASE, BASE + 0x40000)) > 100
    for slide in SLIDES:
        monkeypatch.setattr(mini_build, "_LINKED_AT", BASE + slide)
        second = tmp_path / "second"
        link(spec, objects, second)
        expected = second.read_bytes()
        assert moved(first, slide) == expected
        assert expected != first.read_bytes()


@pytest.mark.thorough
def test_addresses_that_no_linker_filled_in(tmp_path: Path) -> None:
    """With RELA the file may have zeros where the kernel writes at boot: memory has addresses there."""
    needs_mini_kernel_tools()
    path, _ = with_dwarf(Spec(form="rela"), tmp_path, 5)
    applied, _ = with_dwarf(Spec(form="rela-applied"), tmp_path, 5)
    elf = ElfEdit(applied)
    sections = {s.name: s for s in elf.elf.iter_sections()}
    data = moved(path, SLIDE)
    expected = moved(applied, SLIDE)
    for name in (".init.data", ".data", ".rela.dyn"):
        start, size = sections[name]["sh_offset"], sections[name]["sh_size"]
        assert data[start : start + size] == expected[start : start + size], name


@pytest.mark.thorough
def test_text_is_memorys(tmp_path: Path, tool: Tool) -> None:
    """A literal in text that boot relocates is taken from memory, too: an intruder's stays what it is."""
    needs_mini_kernel_tools()
    vmlinux, _ = with_dwarf(Spec(form="relr"), tmp_path, 5)
    elf = ElfEdit(vmlinux)
    leaf = elf.value("work_leaf")
    printed, out = overlay(tool, vmlinux, running(vmlinux, {leaf: 0xD503201F}), "--at", "runtime")
    assert f"slide {SLIDE:#x}, added to all addresses" in printed.out
    expected = bytearray(moved(vmlinux, SLIDE))
    expected[elf.offset(leaf) : elf.offset(leaf) + 4] = (0xD503201F).to_bytes(4, "little")
    assert out.read_bytes() == bytes(expected)


@pytest.mark.thorough
def test_without_a_slide_nothing_moves(tmp_path: Path, tool: Tool) -> None:
    needs_mini_kernel_tools()
    vmlinux, _ = with_dwarf(Spec(form="relr"), tmp_path, 5)
    printed, out = overlay(tool, vmlinux, running(vmlinux, {}, slide=0), "--at", "runtime")
    assert out.read_bytes() == vmlinux.read_bytes()
    assert "slide 0x0\n" in printed.out


@pytest.mark.thorough
def test_compressed_debug_sections_are_refused(tmp_path: Path, tool: Tool) -> None:
    """Their line tables would stay behind: gdb would show wrong lines without a word."""
    needs_mini_kernel_tools()
    needs_tools("aarch64-linux-gnu-objcopy")
    plain, _ = with_dwarf(Spec(form="relr"), tmp_path, 5)
    vmlinux = tmp_path / "compressed"
    command = ["aarch64-linux-gnu-objcopy", "--compress-debug-sections=zlib", str(plain), str(vmlinux)]
    subprocess.run(command, check=True)
    with pytest.raises(InputError, match="is compressed"):
        debug_addresses(ElfImage(vmlinux), BASE, BASE + 0x40000)
    printed, out = overlay(tool, vmlinux, running(plain, {}), "--at", "runtime", status=2)
    assert printed.err.count("\n") == 1
    assert (
        "is compressed, so its addresses cannot be moved: first run objcopy --decompress-debug-sections" in printed.err
    )
    assert not out.exists()
