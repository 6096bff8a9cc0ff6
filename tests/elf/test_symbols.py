"""Symbols by name and by address, against a look at every one of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prologue.elf.image import ElfImage, differing_bytes, differing_files
from prologue.elf.sections import Section
from prologue.elf.symbols import Symbols
from prologue.kernel.linked import private_copy
from tests.mini_kernel.build import Spec, run_command
from tests.mini_module.build import ModuleSpec
from tests.support.elf_edit import ElfEdit
from tests.support.needs import needs_tools

Mini = Callable[[Spec | ModuleSpec], Path]


@pytest.mark.parametrize("spec", [Spec(), Spec(layout="4,2"), ModuleSpec()])
def test_every_symbol_is_found_by_its_name(mini: Mini, spec: Spec | ModuleSpec) -> None:
    image = ElfImage(mini(spec))
    symbols = Symbols(image)
    names = [symbols._name(int(offset)) for offset in symbols.table["name"]]
    sections = symbols.table["shndx"].tolist()
    assert len(set(names)) > 10
    for name in set(names):
        rows = [k for k, other in enumerate(names) if other == name and sections[k]]
        found = symbols.find(name)
        assert (found is not None) == bool(rows)
        if found is not None:
            assert (found.name, found.vaddr) in {(name, int(symbols.values[k])) for k in rows}
    for absent in ("", "no_such_symbol", "a", next(name for name in names if len(name) > 9)[:9]):
        assert absent in names or symbols.find(absent) is None
    for prefix in ("$", "$x", "work_", "__start_mcount", "ftrace_", "no_such"):
        wanted = [k for k, name in enumerate(names) if name.startswith(prefix) and sections[k]]
        assert symbols.values_with_prefix(prefix).tolist() == sorted(symbols.values[wanted].tolist())


def test_a_name_in_the_last_bytes_of_the_file_is_found(mini: Mini) -> None:
    """The first eight bytes of a short name may not all be there."""
    path = mini(Spec())
    image = ElfImage(path)
    symbols = Symbols(image)
    strings = symbols._strings
    content = bytearray(path.read_bytes())
    shifted = len(content)
    content += image.data(strings) + b"zz\0"
    last = len(content) - shifted - 3
    table = next(s for s in image.sections if s.type == "SHT_SYMTAB")
    header = int.from_bytes(content[40:48], "little") + 64 * strings.index
    content[header + 24 : header + 40] = shifted.to_bytes(8, "little") + (len(content) - shifted).to_bytes(8, "little")
    named = symbols.find("work_leaf")
    assert named is not None
    row = int(np.flatnonzero(symbols.values == named.vaddr)[-1])
    at = table.offset + 24 * row
    content[at : at + 4] = last.to_bytes(4, "little")
    path.write_bytes(content)
    found = Symbols(ElfImage(path)).find("zz")
    assert found is not None
    assert found.vaddr == named.vaddr


@pytest.mark.parametrize("spec", [Spec(), ModuleSpec()])
def test_many_places_are_described_like_one(mini: Mini, spec: Spec | ModuleSpec) -> None:
    image = ElfImage(mini(spec))
    symbols = Symbols(image)
    vaddrs = [0, 8, *(s.addr + k for s in image.sections if s.allocated for k in (0, 4, s.size - 1, s.size))]
    vaddrs += [int(value) + 4 for value in symbols.function_starts]
    assert symbols.locate_all(vaddrs) == [symbols.locate(vaddr) for vaddr in vaddrs]
    assert str(symbols.locate_all(vaddrs)[-1]).partition(" ")[0].endswith("+0x4")


def test_what_differs_is_found_across_pieces(mini: Mini, tmp_path: Path) -> None:
    path = mini(Spec())
    before, after = tmp_path / "before", tmp_path / "after"
    content = path.read_bytes() + bytes(3 << 20)
    places = [len(content) - 1, 2 << 20, (2 << 20) - 1, len(content) - (1 << 20)]
    changed = bytearray(content)
    for place in places:
        changed[place] ^= 1
    before.write_bytes(content)
    after.write_bytes(changed)
    one, other = ElfImage(before), ElfImage(after)
    assert differing_files(one, other, len(content)).tolist() == sorted(places)
    assert differing_files(one, other, 2 << 20).tolist() == [(2 << 20) - 1]
    assert one.read(0, 64) == content[:64]  # pages that were let go of are there again
    arrays = (np.frombuffer(data, np.uint8) for data in (content, bytes(changed)))
    assert differing_bytes(*arrays).tolist() == sorted(places)
    copy = private_copy(one)
    copy[4096:4100] = b"mend"
    mended = ElfImage(before, copy)
    assert 4096 in differing_files(one, mended, len(content)).tolist()
    assert mended.read(4096, 4) == b"mend"  # what a copy has of its own is nowhere else
    assert ElfEdit(path).value("work_leaf") == getattr(Symbols(one).find("work_leaf"), "vaddr", None)


@pytest.mark.thorough
@given(
    st.lists(st.integers(0, 200), max_size=12),
    st.lists(st.integers(0, 200), max_size=12),
    st.integers(0, 40).map(lambda words: 4 * words),
    st.integers(0, 30),
)
def test_data_in_text(data: list[int], insn: list[int], begin: int, words: int) -> None:
    """From each ``$d`` to the next ``$x``, or to the section's end; whole words, and only of the section."""
    symbols = object.__new__(Symbols)
    symbols.__dict__["_mapping"] = tuple(np.array(sorted(vaddrs), np.uint64) for vaddrs in (data, insn))
    section = Section(index=1, name=".text", type="SHT_PROGBITS", flags=6, addr=begin, offset=0, size=4 * words + 2,
                      link=0, info=0, entsize=0)  # fmt: skip
    expected = np.ones(section.size // 4, np.bool_)
    for vaddr in data:
        if vaddr in section:
            stop = min((x for x in insn if x >= vaddr), default=section.addr + section.size)
            last = min(stop, section.addr + section.size) - 1
            expected[(vaddr - begin) // 4 : (last - begin) // 4 + 1] = False
    assert symbols.is_code(section).tolist() == expected.tolist()
    vaddrs = np.uint64(begin) + np.arange(len(expected), dtype=np.uint64) * np.uint64(4)
    assert symbols.is_code_at(section, vaddrs).tolist() == expected.tolist()


def test_labels_of_an_assembler_name_nothing(tmp_path: Path) -> None:
    """Some compilers keep them in modules: the kernel passes over them, too."""
    needs_tools("aarch64-linux-gnu-gcc")
    (tmp_path / "made.S").write_text("\t.type work, %function\nwork:\tnop\n.Ltmp0:\tnop\n\tret\n")
    command = ["aarch64-linux-gnu-gcc", "-c", "-Wa,--keep-locals", f"{tmp_path}/made.S", "-o", f"{tmp_path}/made.o"]
    run_command(command)
    image = ElfImage(tmp_path / "made.o")
    symbols = Symbols(image)
    start = symbols.require("work").vaddr
    assert symbols.find(".Ltmp0") is not None
    assert (symbols.locate(start + 4).symbol, symbols.locate(start + 4).symbol_offset) == ("work", 4)
    assert symbols.names_at(start + 4) == ()
