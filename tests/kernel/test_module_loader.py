"""Modules of which the kernel's loader would pass over something without a word."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.elf.image import ElfImage
from tests.mini_module.build import ModuleSpec
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit
from tests.support.needs import needs_tools
from tests.support.tool import Tool

RECORDS = "__patchable_function_entries"
# Offsets in a section header.
TYPE, FLAGS, INFO = 4, 8, 44
CREL, REL, NOBITS = 0x40000014, 9, 8


def changed(path: Path, name: str, field: int, value: int) -> Path:
    """Change a field of a section header."""
    elf = ElfEdit(path)
    elf.set_header(name, field, value)
    return elf.save(path)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ((f".rela{RECORDS}", TYPE, CREL), f"has CREL relocations of {RECORDS}"),
        ((".rela.text", TYPE, CREL), "has CREL relocations of .text"),
        ((".rela.text", TYPE, REL), "has REL relocations of .text"),
        ((".rela.text", TYPE, 0x6FFFFF00), "has unknown (section type 1879047936) relocations of .text"),
        ((f".rela{RECORDS}", INFO, 0), "is for section 0, which does not exist"),
        ((f".rela{RECORDS}", INFO, 999), "is for section 999, which does not exist"),
        ((RECORDS, FLAGS, 1), "is not allocated (SHF_ALLOC)"),
        ((RECORDS, TYPE, NOBITS), "has no bytes (NOBITS)"),
        ((".text", FLAGS, 6 | 1 << 11), ".text is compressed"),
    ],
)
def test_what_the_loader_passes_over_is_bad_input(
    mini: Mini, header: tuple[str, int, int], message: str, tool: Tool
) -> None:
    ko = changed(mini(ModuleSpec()), *header)
    before = ko.read_bytes()
    for command in (["scan"], ["verify"], ["patch", "--in-place", "--contract", "native"]):
        assert message in tool(command[0], ko, *command[1:], status=2).err
    assert ko.read_bytes() == before


def test_crel_as_clang_makes_it(tmp_path: Path, tool: Tool) -> None:
    needs_tools("clang-19")
    out = tmp_path / "crel.ko"
    command = ["clang-19", "--target=aarch64-linux-gnu", "-O2", "-fpatchable-function-entry=2", "-c", "-x", "c", "-"]
    command += ["-Wa,--crel,--allow-experimental-crel", "-o", str(out)]
    subprocess.run(command, input="int f(int a) { return a * 3; }", text=True, check=True)
    assert "CREL relocations" in tool("verify", out, status=2).err


def test_one_of_several_sections_of_records_is_loaded(mini: Mini, tool: Tool) -> None:
    ko = mini(ModuleSpec(compiler="clang", merged=False))
    before = ko.read_bytes()
    assert "PL111 records-not-loaded (error): 1\n" in tool("scan", ko).out
    said = tool("verify", ko, status=1).out
    assert "of which the module loader takes the first: 1 of 6 functions can be traced" in said
    assert main(["patch", str(ko), "--in-place", "--contract", "native"]) == 2
    assert ko.read_bytes() == before


def unrelocated(path: Path, slot: int) -> Path:
    """Take the relocation of the second record away, as linkers do for a function that they discard."""
    elf = ElfEdit(path)
    table = elf.elf.get_section_by_name(f".rela{RECORDS}")
    struct.pack_into("<Q", elf.data, table["sh_offset"] + 24 + 8, 0)  # r_info: R_AARCH64_NONE
    struct.pack_into("<Q", elf.data, elf.elf.get_section_by_name(RECORDS)["sh_offset"] + 8, slot)
    return elf.save(path)


@pytest.mark.parametrize(
    ("release", "severity"),
    [
        ("5.10.0-32-cloud-arm64", "fatal"),
        ("6.1.0-56-arm64", "fatal"),
        ("6.12.94", "fatal"),
        ("6.12.95", None),
        ("6.12.117+deb13-arm64", None),
        ("6.8.0-45-generic", "info"),  # a distribution's number: what it has taken from later kernels is not known
        ("6.6.9", "info"),
        ("6.15.0", None),
        ("7.3.4+deb13-cloud-arm64", None),
        ("", "info"),
    ],
)
def test_a_zero_record_is_judged_by_the_release_that_loads_it(
    mini: Mini, release: str, severity: str | None, tool: Tool
) -> None:
    ko = unrelocated(mini(ModuleSpec(release=release)), 0)
    refused = severity == "fatal"
    found = tool("verify", ko, "--select", "PL1", "--json", status=refused).json["findings"]
    assert [(f["code"], f["severity"]) for f in found] == ([("PL108", severity)] if severity else [])
    assert main(["patch", str(ko), "--dry-run", "--contract", "native"]) == 2 * refused


def test_a_record_without_a_relocation_stays_as_it_is(mini: Mini, tool: Tool) -> None:
    """Whatever stands there is no address of the module, even where the tool's own made-up addresses are."""
    base = module_base(mini(ModuleSpec()))
    ko = unrelocated(mini(ModuleSpec(release="7.2.13")), base)
    (finding,) = tool("verify", ko, "--select", "PL1", "--json", status=1).json["findings"]
    assert finding["code"] == "PL105"
    assert finding["message"] == f"no relocation: the record stays {base:#x}, which is not text"


def module_base(path: Path) -> int:
    return min(section.addr for section in ElfImage(path).text_sections)


@pytest.mark.parametrize("release", ["6.1.0-56-arm64", "7.2.13"])
def test_a_record_of_a_section_that_is_not_loaded(mini: Mini, release: str, tool: Tool) -> None:
    """The loader gives it an address in the copy of the file that it frees: it is no zero record."""
    ko = changed(mini(ModuleSpec(release=release)), ".exit.text", FLAGS, 0)
    (finding,) = tool("verify", ko, "--select", "PL1", "--json", status=1).json["findings"]
    assert finding["code"] == "PL105"
