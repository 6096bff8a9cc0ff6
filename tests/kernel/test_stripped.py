"""Symbols that were stripped: bad input; never an accusation, and never "no ftrace"."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.kernel.kernel import Kernel
from tests.mini_kernel.build import Layout, Spec
from tests.mini_module.build import ModuleSpec
from tests.support.built import AnySpec, Mini
from tests.support.cases import one_quick
from tests.support.elf_edit import ElfEdit, edit
from tests.support.needs import needs_tools
from tests.support.tool import Tool

NATIVE = [Spec(), Spec("4,2", compiler="clang", form="relr", bti=True)]
# What the tool finds tables and contracts by.
NEEDED = ["__ftrace_prologue_marker", "__start_mcount_loc", "__stop_mcount_loc", "ftrace_init"]


def without(path: Path, *options: str) -> Path:
    needs_tools("aarch64-linux-gnu-objcopy")
    out = path.with_name(f"stripped{path.suffix}")
    subprocess.run(["aarch64-linux-gnu-objcopy", *options, str(path), str(out)], check=True)
    return out


def process(path: Path, *, wanted: bool) -> Path:
    if wanted:
        assert main(["patch", str(path), "--in-place", "--contract", "native"]) == 0
    return path


@pytest.mark.thorough
@pytest.mark.parametrize("processed", [False, True])
@pytest.mark.parametrize("name", [*NEEDED, "ftrace_nop_ops"])
@pytest.mark.parametrize("spec", NATIVE, ids=str)
def test_one_symbol_of_a_native_kernel(mini: Mini, spec: Spec, name: str, tool: Tool, *, processed: bool) -> None:
    path = process(mini(spec), wanted=processed)
    names = [symbol for symbol in ElfEdit(path).symbols if symbol.partition(".")[0] == name]
    if not names:
        return  # of CALL_OPS
    stripped = without(path, *(f"--strip-symbol={symbol}" for symbol in names))
    for command in (["verify"], ["verify", "--release"], ["scan"], ["patch", "-o", str(path.with_name("out"))]):
        if command[0] == "patch" and name == "ftrace_nop_ops" and processed:
            continue  # there is nothing to write
        said = tool(*command, stripped, status=2)
        assert "stripped in part" in said.err
        assert "PL" not in said.err


@pytest.mark.thorough
@pytest.mark.parametrize("processed", one_quick(True, False))
@pytest.mark.parametrize("spec", one_quick(*NATIVE, Spec(contract="stock")), ids=str)
def test_any_other_symbol(mini: Mini, spec: Spec, tool: Tool, *, processed: bool) -> None:
    """Nothing worse than a question about a function without a name."""
    path = process(mini(spec), wanted=processed and spec.contract == "native")
    kept = (*NEEDED, "ftrace_nop_ops", "_sinittext", "__init_begin")
    for name in ElfEdit(path).symbols:
        if name.partition(".")[0] in kept or name.startswith("$"):
            continue
        stripped = without(path, f"--strip-symbol={name}")
        said = tool("verify", stripped).out
        assert "fatal" not in said, name
        assert "error" not in said, name


@pytest.mark.parametrize("spec", [Spec(), ModuleSpec()], ids=str)
def test_all_symbols(mini: Mini, spec: AnySpec, tool: Tool) -> None:
    needs_tools("aarch64-linux-gnu-strip")
    path = mini(spec)
    subprocess.run(["aarch64-linux-gnu-strip", "-s", str(path)], check=True)
    for command in ("scan", "verify"):
        assert "no symbol table" in tool(command, path, status=2).err


@pytest.mark.parametrize("spec", [Spec(), Spec(contract="stock"), ModuleSpec()], ids=str)
def test_functions_without_a_type(mini: Mini, spec: AnySpec, tool: Tool) -> None:
    with edit(mini(spec)) as elf:
        for row, symbol in enumerate(elf.symtab.iter_symbols()):
            if symbol["st_info"]["type"] == "STT_FUNC":
                elf.data[elf.symtab["sh_offset"] + 24 * row + 4] &= 0xF0
    assert "traced functions have no symbol: PL109 and PL304 were not checked" in tool("verify", elf.path).out


def test_local_functions_of_a_module(mini: Mini, tool: Tool) -> None:
    with edit(mini(ModuleSpec())) as elf:
        for symbol in list(elf.symbols):
            if elf.symbols[symbol]["st_info"]["type"] == "STT_FUNC":
                elf.set_symbol(symbol, value=elf.symbols[symbol]["st_value"] + 12)
    assert "have no symbol: PL109 and PL304 were not checked" in tool("verify", elf.path).out


def test_a_marker_needs_more_than_its_magic(mini: Mini) -> None:
    """The same eight bytes with another version after them are no marker."""
    elf = ElfEdit(mini(Spec()))
    at = elf.offset(elf.value("__ftrace_prologue_marker"))
    elf.rename_symbol("__ftrace_prologue_marker", "x")
    struct.pack_into("<I", elf.data, at + 8, 99)
    assert Kernel(elf.save(elf.path)).marker is None


@pytest.mark.parametrize("layout", ["2", "4,2"])
def test_a_table_that_was_not_written_is_not_a_stripped_file(mini: Mini, layout: Layout) -> None:
    """Offsets of zero all mean ``_text``, which no function is at: that is damage, and for rules to report."""
    elf = ElfEdit(process(mini(Spec(layout, marker=2)), wanted=True))
    start, stop = elf.value("__start_mcount_loc"), elf.value("__stop_mcount_loc")
    elf.data[elf.offset(start) : elf.offset(start) + stop - start] = bytes(stop - start)
    kernel = Kernel(elf.save(elf.path))
    assert kernel.sites is not None
    assert len(kernel.sites) > 8
    assert kernel.unnamed_functions == 0
    assert main(["verify", str(elf.path)]) == 1
