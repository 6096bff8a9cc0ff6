"""The fragment for the kernel's linker script makes the marker, and each of its ASSERTs fires.

That mini kernels and modules link, run and are understood is in test_mini_kernel.py and test_modules.py.
"""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols
from prologue.kernel.marker import find_marker
from tests.mini_kernel.build import BUILDTIME_PROLOGUE, LINKER_SCRIPT, Form, Spec, preprocess
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit
from tests.support.needs import needs_mini_kernel_tools

FRAGMENT = LINKER_SCRIPT.with_name("ftrace-prologue.lds.h")
MARKER = "__ftrace_prologue_marker"
CLEAR = struct.pack("<8sIIQ", b"PROLOGUE", 1, 0, 0)
LINKERS = ("aarch64-linux-gnu-ld", "ld.lld")
KINDS = ("-static", "-shared")

# .init.data as in vmlinux, but for the ALIGN(8) before the records: here a misaligned start is possible.
SCRIPT = f"""
SECTIONS
{{
	.init.data PLACE : {{
		*(.init.data)
		__start_mcount_loc = .;
		KEEP(*(__patchable_function_entries))
		__stop_mcount_loc = .;
		*(.init.rodata)
#include "{FRAGMENT}"
		*(.init.setup)
	}}
}}
"""
RECORDS = '.section __patchable_function_entries, "aw"\n'
TWO_RECORDS = f"{RECORDS} .quad 0x11, 0x22\n"
AROUND = '.section .init.rodata, "a"\n .ascii "ro"\n.section .init.setup, "aw"\n .ascii "setup"\n'

MISALIGNED = "mcount records are not 8-aligned"
CUT = "mcount records are cut"
NONE = "no mcount records to move"


@pytest.fixture(autouse=True)
def _tools() -> None:
    needs_mini_kernel_tools()


def assembled(directory: Path, source: str) -> Path:
    path = directory / "source.S"
    path.write_text(source)
    subprocess.run(["aarch64-linux-gnu-gcc", "-c", path, "-o", path.with_suffix(".o")], check=True)
    return path.with_suffix(".o")


def link_fragment(
    directory: Path, source: str, linker: str, kind: str, *defines: str, place: int = 0x1000
) -> tuple[Path, str]:
    """Where the output would be, and what the linker complained of."""
    template, script, out = directory / "test.lds.S", directory / "test.lds", directory / "out"
    template.write_text(SCRIPT)
    preprocess(template, script, f"PLACE={place:#x}", *defines)
    files = ["-T", str(script), "-o", str(out), str(assembled(directory, source))]
    command = [linker, kind, "-e", "0", "--build-id=none", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == out.exists(), done.stderr
    return out, done.stderr


def section_of(elf: ElfEdit, symbol: str) -> str:
    return str(elf.elf.get_section(elf.symbols[symbol]["st_shndx"]).name)


def section_bytes(elf: ElfEdit, name: str) -> bytes:
    return bytes(elf.elf.get_section_by_name(name).data())


# The fragment. GNU ld takes symbols in an output section as offsets into it, LLD as addresses; with the section at
# 0x1004 these differ in their low bits.


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("linker", LINKERS)
@pytest.mark.parametrize(("place", "before"), [(0x1000, 0), (0x1000, 8), (0x1004, 4)])
def test_with_the_option_the_fragment_makes_a_clear_marker(
    tmp_path: Path, linker: str, kind: str, place: int, before: int
) -> None:
    source = f'.section .init.data, "aw"\n .skip {before}\n{TWO_RECORDS}{AROUND}'
    out, complaint = link_fragment(tmp_path, source, linker, kind, BUILDTIME_PROLOGUE, place=place)
    assert out.exists(), complaint
    elf = ElfEdit(out)
    marker, stop = elf.value(MARKER), elf.value("__stop_mcount_loc")
    assert elf.value("__start_mcount_loc") == place + before
    assert stop == place + before + 16
    assert marker == stop + 8  # two bytes of .init.rodata, and six to be aligned
    assert section_of(elf, MARKER) == ".init.data"
    assert section_bytes(elf, ".init.data")[marker - place :] == CLEAR + b"setup"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("linker", LINKERS)
@pytest.mark.parametrize("odd", ["", " .long 1\n"], ids=["whole", "cut"])
def test_without_the_option_the_fragment_is_nothing(tmp_path: Path, linker: str, kind: str, odd: str) -> None:
    out, complaint = link_fragment(tmp_path, TWO_RECORDS + odd + AROUND, linker, kind)
    assert out.exists(), complaint
    elf = ElfEdit(out)
    assert MARKER not in elf.symbols
    assert section_bytes(elf, ".init.data")[16:] == (b"\1\0\0\0" if odd else b"") + b"rosetup"


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("linker", LINKERS)
@pytest.mark.parametrize(
    ("source", "place", "message"),
    [
        (f'.section .init.data, "aw"\n .long 1\n{TWO_RECORDS}', 0x1000, MISALIGNED),
        (f'.section .init.data, "aw"\n .quad 1\n{TWO_RECORDS}', 0x1004, MISALIGNED),  # its offset is a multiple of 8
        (f"{TWO_RECORDS} .long 1\n", 0x1000, CUT),
        (f"{RECORDS} .long 1\n", 0x1000, CUT),
        (AROUND, 0x1000, NONE),
    ],
    ids=["misaligned", "misaligned section", "cut", "half a record", "none"],
)
def test_each_assert_of_the_fragment_fires(
    tmp_path: Path, *, linker: str, kind: str, source: str, place: int, message: str
) -> None:
    out, complaint = link_fragment(tmp_path, source, linker, kind, BUILDTIME_PROLOGUE, place=place)
    assert not out.exists()
    assert {line.partition("ftrace: ")[2] for line in complaint.splitlines() if "ftrace: " in line} == {message}


def test_every_assert_of_the_fragment_has_a_test_and_its_semicolon() -> None:
    """GNU ld demands a semicolon after an ASSERT in an output section, LLD 14 does without."""
    text = FRAGMENT.read_text().partition("#ifdef")[2]
    assert text.count("ASSERT(") == text.count('");') == len({MISALIGNED, CUT, NONE})


# The mini kernel


@pytest.mark.parametrize("form", ["static", "rela", "rela-applied", "relr"])
def test_the_marker_of_the_mini_kernel_is_found_and_named(mini: Mini, form: Form) -> None:
    """The end of the records is at the same address; which of the two comes last in .symtab is up to the linker."""
    image = ElfImage(mini(Spec(form=form)))
    symbols = Symbols(image)
    marker = find_marker(image, symbols)
    assert marker is not None
    assert (marker.flags, marker.sites) == (0, 0)
    assert marker.vaddr == symbols.require("__stop_mcount_loc").vaddr
    assert symbols.locate(marker.vaddr).symbol == MARKER
    assert symbols.locate(marker.vaddr + 16).symbol == MARKER
    assert Symbols(ElfImage(mini(Spec(form=form, contract="stock")))).find(MARKER) is None
