"""Units as Clang describes them: its table of addresses has those of assembly only, whose lines may go back."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from prologue.dwarf.debug_info import open_debug
from prologue.dwarf.dwarf_entries import text_of
from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols
from prologue.live.system.programs import Owner
from prologue.trace.views.source_lines import LineTables
from tests.mini_kernel.build import run_command
from tests.support.needs import needs_tools

_C: Final = "int thrice(int number)\n{\n\treturn number * 3;\n}\n"
_ASSEMBLY: Final = """.text
.type assembled, %function
.globl assembled
assembled:
	nop
	.subsection 1
	nop
	.previous
	ret
"""


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> ElfImage:
    needs_tools("clang", "ld.lld")
    directory = tmp_path_factory.mktemp("mixed")
    (directory / "c.c").write_text(_C)
    (directory / "a.S").write_text(_ASSEMBLY)
    flags = ["--target=aarch64-linux-gnu", "-O1", "-g", "-nostdlib", "-static", "-fuse-ld=lld", "-Wl,-e,thrice"]
    path, sources = directory / "mixed", [str(directory / name) for name in ("c.c", "a.S")]
    run_command(["clang", *flags, "-o", str(path), *sources])
    return ElfImage(path)


def test_a_function_is_found(mixed: ElfImage) -> None:
    debug, vaddrs = open_debug(mixed), {name: Symbols(mixed).find(name) for name in ("thrice", "assembled")}
    assert debug is not None
    function, unit = (vaddr.vaddr for vaddr in vaddrs.values() if vaddr is not None)
    described = debug.function_at(function)
    assert described is not None
    assert text_of(described[1], "DW_AT_name") == "thrice"
    found = debug.unit_at(unit)
    assert found is not None
    assert Path(found.name).name == "a.S"


def test_a_line_is_found(mixed: ElfImage) -> None:
    symbols = Symbols(mixed)
    tables = LineTables(Owner("", mixed, symbols, 0))
    for name, offset, file, line in (("thrice", 0, "c.c", 3), ("assembled", 0, "a.S", 5), ("assembled", 4, "a.S", 9)):
        symbol = symbols.find(name)
        assert symbol is not None
        place = tables.line(symbol.vaddr + offset)
        assert place is not None
        assert (Path(place[0]).name, place[1]) == (file, line)
