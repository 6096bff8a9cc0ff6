"""Separate debug files have headers and symbols and no bytes: bad input for every command, and never "no ftrace"."""

from __future__ import annotations

import lzma
import subprocess
from pathlib import Path

import pytest

from prologue.elf.image import ElfImage
from prologue.errors import InputError
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.support.built import AnySpec, Mini
from tests.support.elf_edit import ElfEdit
from tests.support.needs import needs_tools
from tests.support.tool import Tool

SPECS = [Spec(), Spec(form="relr", compiler="clang", layout="4,2"), ModuleSpec(), ModuleSpec(linked=False)]
SAYS = "a separate debug file, its sections have no bytes"
NOBITS = 8


def objcopy(path: Path, *options: str) -> Path:
    needs_tools("aarch64-linux-gnu-objcopy")
    out = path.with_name(f"changed{path.suffix}")
    subprocess.run(["aarch64-linux-gnu-objcopy", *options, str(path), str(out)], check=True)
    return out


def commands(path: Path) -> list[list[str]]:
    out = str(path.with_name("out"))
    file = str(path)
    every = [["scan", file], ["verify", file], ["verify", file, "--release"], ["patch", file, "-o", out]]
    if path.suffix == ".ko":
        return every
    return [
        *every,
        ["image", file, "-o", out],
        ["variant", file, "--kind", "nop-nop", "-o", out],
        ["probe", file, "work_leaf"],
        ["bench", "run", file, "--workload", "hackbench:g=1,l=1", "--target", "qemu", "-o", out],
    ]


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_separate_debug_file(mini: Mini, spec: AnySpec, tool: Tool) -> None:
    debug = objcopy(mini(spec), "--only-keep-debug")
    for command in commands(debug):
        assert SAYS in tool(*command, status=2).err
        assert not debug.with_name("out").exists()


@pytest.mark.parametrize("spec", [Spec(), ModuleSpec()], ids=str)
def test_compressed(mini: Mini, spec: AnySpec, tool: Tool) -> None:
    debug = objcopy(mini(spec), "--only-keep-debug")
    packed = debug.with_name(f"{debug.name}.xz")
    packed.write_bytes(lzma.compress(debug.read_bytes()))
    for command in ("scan", "verify"):
        assert SAYS in tool(command, packed, status=2).err


def test_file_before(mini: Mini, tool: Tool) -> None:
    vmlinux = mini(Spec())
    assert SAYS in tool("verify", vmlinux, "--against", objcopy(vmlinux, "--only-keep-debug"), status=2).err


@pytest.mark.parametrize("name", [".text", ".init.text", ".rodata", ".init.data", ".rela.dyn"])
def test_one_section_without_bytes(mini: Mini, name: str) -> None:
    elf = ElfEdit(mini(Spec()))
    elf.set_header(name, 4, NOBITS)
    with pytest.raises(InputError, match=f"section {name} has no bytes"):
        ElfImage(elf.save(elf.path))


def test_placeholders_of_modules(mini: Mini) -> None:
    """The module loader makes these NOBITS itself; a file may have them so."""
    elf = ElfEdit(mini(ModuleSpec()))
    elf.set_header(".text.ftrace_trampoline", 4, NOBITS)
    assert ElfImage(elf.save(elf.path)).text_sections
