"""Which units have an address, or a function of a name: by tables, references, indices, and names that entries hold."""

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
from tests.probe.made_kernel import TEXT, TOOLS, symbol_of
from tests.support.needs import needs_tools

# Clang's table of addresses has those of assembly only, whose lines may go back.
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
    debug = open_debug(mixed)
    assert debug is not None
    described = debug.function_at(symbol_of(mixed.path, "thrice").vaddr)
    assert described is not None
    assert text_of(described[1], "DW_AT_name") == "thrice"
    found = debug.unit_at(symbol_of(mixed.path, "assembled").vaddr)
    assert found is not None
    assert Path(found.name).name == "a.S"


def test_a_line_is_found(mixed: ElfImage) -> None:
    tables = LineTables(Owner("", mixed, Symbols(mixed), 0))
    for name, offset, file, line in (("thrice", 0, "c.c", 3), ("assembled", 0, "a.S", 5), ("assembled", 4, "a.S", 9)):
        place = tables.line(symbol_of(mixed.path, name).vaddr + offset)
        assert place is not None
        assert (Path(place[0]).name, place[1]) == (file, line)


_HEADER = """
static inline __attribute__((always_inline)) long helper(long number)
{
	__asm__ volatile("" :: "r"(number));
	return number + 1;
}
"""


@pytest.mark.parametrize("name_asked", ["helper", "fls"])
@pytest.mark.parametrize("flags", [["clang", "--target=aarch64-linux-gnu"], ["aarch64-linux-gnu-gcc"]])
def test_names_of_several_units(tmp_path: Path, flags: list[str], name_asked: str) -> None:
    """Clang's entries hold an index of each name, in a table of their unit; GCC's hold its place, or a short name."""
    needs_tools("clang", *TOOLS)
    made = []
    for name in ("first", "second", "third"):
        source = tmp_path / f"{name}.c"
        use = "" if name == "second" else f"long {name}_user(long number) {{ return helper(number); }}\n"
        text = _HEADER.replace("{", f"{{ /* {name} */", 1) + use + f"void {name}(void) {{}}\n"
        source.write_text(text.replace("helper", name_asked))
        made.append(source.with_suffix(".o"))
        run_command([*flags, "-O2", "-g", "-gdwarf-5", "-ffreestanding", "-c", str(source), "-o", str(made[-1])])
    out = tmp_path / "all"
    run_command(["aarch64-linux-gnu-ld", f"-Ttext={TEXT:#x}", "-e", "first", "-o", str(out), *map(str, made)])
    debug = open_debug(ElfImage(out))
    assert debug is not None
    places = [
        text_of(outer, "DW_AT_name")
        for unit in debug.units_naming(name_asked)
        for abstract in unit.named(name_asked, "DW_TAG_subprogram")
        for outer, _ in unit.inlined(abstract)
    ]
    assert places == ["first_user", "third_user"]
    assert [Path(unit.name).name for unit in debug.units_of_file("second.c")] == ["second.c"]


def test_units_with_a_local_variable_of_a_short_name_are_passed_over(tmp_path: Path) -> None:
    """A letter is a variable in most units of a kernel: reading all of them took two minutes."""
    needs_tools(*TOOLS)
    texts = {"first": f"{_HEADER.replace('helper', 'x')}long first(long n) {{ return x(n); }}\n",
             "second": "long max(long number) { long x = number + 1; return x; }\n"}  # fmt: skip
    for name, text in texts.items():
        (tmp_path / f"{name}.c").write_text(text)
    out, flags = tmp_path / "all", ["-O2", "-g", "-gdwarf-5", "-ffreestanding", "-nostdlib", "-Wl,-e,first"]
    run_command(["aarch64-linux-gnu-gcc", *flags, "-o", str(out), *(str(tmp_path / f"{name}.c") for name in texts)])
    debug = open_debug(ElfImage(out))
    assert debug is not None
    assert [Path(unit.name).name for unit in debug.units_naming("x")] == ["first.c"]
