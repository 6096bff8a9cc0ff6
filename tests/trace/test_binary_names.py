"""Names of text in programs and libraries, which are stripped mostly: symbols have sizes there."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from prologue.elf.image import ElfImage
from prologue.elf.symbols import STT_FUNC, STT_NOTYPE, SYM
from prologue.elf.written import NewSection, write_executable
from prologue.live.system.programs import Owner, Program, TextPiece
from prologue.trace.path.assign import Kernels
from prologue.trace.path.binary_names import BinaryNames
from prologue.trace.path.filters import Filters
from prologue.trace.path.known import KnownRanges
from prologue.trace.ranges import NO_TASK, Batch, new_ranges
from tests.support.needs import needs_tools

SOURCE: Final = """
    .globl outer, inner, after, label, ahead, chosen
    .type outer, %function; .type inner, %function; .type after, %function; .type chosen, %gnu_indirect_function
    .text
    nop
outer: nop
inner: nop
    .size inner, 4
    nop
    .size outer, 12
    bl elsewhere
after: nop
    .size after, 4
    nop
label: nop
    nop
    .section .text.more, "ax"
    nop
chosen: nop
    .size chosen, 4
    .data
    .globl value
value: .quad 0
"""
# Each word of the library's own text, by its symbol and by what it is without one.
NAMES: Final = [".text", "outer", "inner", "outer+0x8", ".text+0x10", "after", ".text+0x18", "label", "label+0x4"]
MORE: Final = [".text.more", "chosen"]
TEXT: Final = 0x10000


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_tools("aarch64-linux-gnu-gcc")
    directory = tmp_path_factory.mktemp("library")
    source, script, path = (directory / name for name in ("names.S", "keep.ld", "names.so"))
    source.write_text(SOURCE)
    script.write_text("SECTIONS { .text.more : { *(.text.more) } } INSERT AFTER .text;")
    command = ["aarch64-linux-gnu-gcc", "-shared", "-nostdlib", "-Wl,-z,lazy", f"-Wl,-T,{script}", str(source)]
    subprocess.run([*command, "-o", str(path)], check=True)
    return path


def named(image: ElfImage, section: str) -> list[str]:
    """Name each word of a section where it runs."""
    slide, names = 0x7F0000000000, BinaryNames(image)
    owner = Owner("", image, names, slide)
    pieces = [TextPiece(text.addr + slide, image.view(text, "<u4"), owner) for text in image.text_sections]
    program = Program("names.so", owner, pieces)
    text = next(each for each in image.text_sections if each.name == section)
    vaddrs = np.arange(text.size // 4, dtype=np.uint64) * np.uint64(4) + np.uint64(text.addr + slide)
    places = program.places(vaddrs)
    assert places == [program.place(vaddr) for vaddr in vaddrs.tolist()]
    assert names.locate_all((vaddrs - np.uint64(slide)).tolist()) == [
        names.locate(vaddr - slide) for vaddr in vaddrs.tolist()
    ]
    return [name + f"+{offset:#x}" * bool(offset) for name, offset in places]


@pytest.mark.parametrize(
    ("symbols", "names"),
    [
        pytest.param([("f", 4, 8), ("g", 12, 8)], ["f", "f+0x4", "g", "g+0x4"], id="one after the other"),
        pytest.param([("f", 8, 8)], [".text+0x4", "f", "f+0x4", ".text+0x10"], id="the section where no symbol is"),
        pytest.param([("f", 4, 16), ("g", 8, 4)], ["f", "g", "f+0x8", "f+0xc"], id="one inside of another"),
        pytest.param(
            [("label", 8, 0)], [".text+0x4", "label", "label+0x4", "label+0x8"], id="without a size: to the end"
        ),
        pytest.param([("label", 4, 0), ("g", 12, 4)], ["label", "label+0x4", "g", ".text+0x10"], id="to the next one"),
        pytest.param([("f", 4, 4), ("g", 4, 8)], ["g", "g+0x4", ".text+0xc", ".text+0x10"], id="two at one address"),
        pytest.param(  # .text of Debian's libstdc++ begins with the exported __cxa_throw_bad_array_length
            [("f", 0, 4), ("g", 8, 4)], [".text+0x4", "g", ".text+0xc", ".text+0x10"], id="one where the section begins"
        ),
    ],
)
def test_each_word_has_the_name_of(symbols: list[tuple[str, int, int]], names: list[str], tmp_path: Path) -> None:
    """Five words of text, and symbols at offsets from the section, with sizes; the first is the section's or ``f``."""
    table = np.zeros(len(symbols), SYM)
    for row, (_, offset, size) in enumerate(symbols):
        table[row] = (row, STT_FUNC if size else STT_NOTYPE, 0, 1, TEXT + offset, size)
    section = NewSection(name=".text", vaddr=TEXT, size=20, data=bytes(20))
    (tmp_path / "a").write_bytes(write_executable([section], table, [name for name, *_ in symbols]))
    image = ElfImage(tmp_path / "a")
    assert named(image, ".text") == ["f" if symbols[0][1] == 0 else ".text", *names]
    assert BinaryNames(image).has(".text")


def test_the_name_of_a_section_whose_text_all_has_names(tmp_path: Path) -> None:
    section = NewSection(name=".text", vaddr=TEXT, size=8, data=bytes(8))
    table = np.array([(0, STT_FUNC, 0, 1, TEXT, 8)], SYM)
    (tmp_path / "a").write_bytes(write_executable([section], table, ["f"]))
    image = ElfImage(tmp_path / "a")
    assert named(image, ".text") == ["f", "f+0x4"]
    assert not BinaryNames(image).has(".text")


def test_a_size_beyond_the_section_ends_with_it(tmp_path: Path) -> None:
    sections = [
        NewSection(name=name, vaddr=TEXT + at, size=8, data=bytes(8)) for name, at in ((".text", 0), (".more", 8))
    ]
    table = np.array([(0, STT_FUNC, 0, 1, TEXT + 4, 64)], SYM)
    (tmp_path / "a").write_bytes(write_executable(sections, table, ["f"]))
    assert named(ElfImage(tmp_path / "a"), ".text") == [".text", "f"]
    assert named(ElfImage(tmp_path / "a"), ".more") == [".more", ".more+0x4"]


@pytest.mark.parametrize("stripped", [False, True])
def test_a_symbol_names_what_it_holds(library: Path, stripped: bool, tmp_path: Path) -> None:
    path = tmp_path / "names.so"
    path.write_bytes(library.read_bytes())
    if stripped:
        subprocess.run(["aarch64-linux-gnu-strip", str(path)], check=True)
    image = ElfImage(path)
    assert named(image, ".text") == NAMES
    assert named(image, ".text.more") == MORE
    plt = named(image, ".plt")
    assert plt == [".plt", *(f".plt+{offset:#x}" for offset in range(4, 4 * len(plt), 4))]
    (data,) = BinaryNames(image).with_prefix("value")
    assert BinaryNames(image).locate(data.vaddr + 4).symbol == "value"


def test_what_has_no_symbol_at_all(library: Path, tmp_path: Path) -> None:
    """A program's dynamic symbols are often imports alone, and a static one has none."""
    path = tmp_path / "names.so"
    command = ["aarch64-linux-gnu-objcopy", "--strip-all", "-R", ".dynsym", "-R", ".gnu.hash", "-R", ".hash"]
    subprocess.run(
        [*command, "-R", ".rela.plt", "-R", ".rela.dyn", "-R", ".dynamic", str(library), str(path)], check=True
    )
    image = ElfImage(path)
    assert not any(section.type in ("SHT_SYMTAB", "SHT_DYNSYM") for section in image.sections)
    assert named(image, ".text") == [".text", *(f".text+{offset:#x}" for offset in range(4, 4 * len(NAMES), 4))]
    assert BinaryNames(image).with_prefix(".text.m")[0].name == ".text.more"
    assert BinaryNames(image).function_names() == []


@pytest.mark.parametrize(
    ("first", "last", "symbols"),
    [(2, 3, {"outer", "inner"}), (3, 5, {"outer", ".text", "after"}), (4, 5, {".text", "after"}), (7, 8, {"label"})],
)
def test_a_range_touches_what_names_its_words(library: Path, first: int, last: int, symbols: set[str]) -> None:
    image = ElfImage(library)
    section = next(section for section in image.text_sections if section.name == ".text")
    names = BinaryNames(image)
    owner = Owner("names.so", image, names, 0)
    program = Program("names.so", owner, [TextPiece(section.addr, image.view(section, "<u4"), owner)])
    known = KnownRanges(Kernels(host=program))
    ranges = new_ranges(1)
    ranges["start"], ranges["end"], ranges["level"] = section.addr + 4 * first, section.addr + 4 * last + 4, 1
    known.numbers(Batch(ranges, [NO_TASK], ["[kernel.kallsyms]"]))
    touched = {
        name
        for name in ("outer", "inner", "after", "label", ".text")
        if Filters.touching(known, tuple((0, place) for place in program.find(name)))[0]
    }
    assert touched == symbols
