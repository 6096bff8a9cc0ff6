"""Listings: every word is its instruction, and the ELF file of it is what binutils' readers take."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from io import BytesIO
from typing import Any, cast

import pytest
from elftools.elf.elffile import ELFFile

from prologue.examples.listing import KernelListing
from prologue.examples.place import example_names
from tests.support.assembler import assemble_now

DIRECTORY = files("prologue.examples")
WITHOUT_BTI = {"bti c": "hint #34"}  # keystone does not know it


def kernel(name: str = "kernel") -> KernelListing:
    return KernelListing(DIRECTORY.joinpath(f"{name}.lst").read_text())


def word_of(listing: KernelListing, vaddr: int) -> int:
    (section,) = (each for each in listing.sections if each.vaddr <= vaddr < each.end)
    at = vaddr - section.vaddr
    return int.from_bytes(section.data[at : at + 4], "little")


def assembled(listing: KernelListing, vaddr: int) -> int:
    """The word that keystone makes of an instruction; its operand may be a place."""
    text = WITHOUT_BTI.get(listing.insns[vaddr], listing.insns[vaddr])
    mnemonic, _, place = text.rpartition(" ")
    if place.partition("+")[0] not in listing.symbols and not re.fullmatch(r"0x[0-9a-f]{16}", place):
        return assemble_now(text)
    target = listing.address(place)
    distance = (target >> 12 << 12) - (vaddr >> 12 << 12) if mnemonic.startswith("adrp") else target - vaddr
    return assemble_now(f"{mnemonic} #{distance}")


def changed() -> Iterator[tuple[str, KernelListing]]:
    """The kernel of each example, and what its memory has; the kernel of the demo."""
    yield "mini", kernel("mini")
    for name in example_names():
        listing, changes = kernel(), tomllib.loads(DIRECTORY.joinpath(f"{name}.toml").read_text())
        for part in ("file", "memory"):
            listing.change(changes.pop(part, {}))
            yield f"{name} {part}", listing
        assert not changes


LISTED = list(changed())


@pytest.mark.parametrize(("name", "listing"), LISTED, ids=[name for name, _ in LISTED])
def test_each_word_is_its_instruction(name: str, listing: KernelListing) -> None:
    assert len(listing.insns) > 70, name
    wrong = {hex(v): text for v, text in listing.insns.items() if word_of(listing, v) != assembled(listing, v)}
    assert wrong == {}


@pytest.mark.parametrize("name", ["kernel", "mini"])
def test_the_file_is_read_as_it_was_listed(name: str) -> None:
    listing = kernel(name)
    elf = ELFFile(BytesIO(listing.vmlinux()))
    sections = {section.name: section for section in elf.iter_sections()}
    for section in listing.sections:
        header = sections[section.name]
        assert (header["sh_addr"], header["sh_flags"], header["sh_size"]) == (
            section.vaddr,
            section.flags,
            len(section.data),
        )
        assert (header["sh_type"] == "SHT_NOBITS") == section.absent
        assert section.absent or header.data() == bytes(section.data)
    symbols = {symbol.name: symbol for symbol in cast("Any", sections[".symtab"]).iter_symbols() if symbol.name}
    assert symbols.keys() == listing.symbols.keys()


def test_functions_and_objects_have_their_sizes() -> None:
    table = ELFFile(BytesIO(kernel().vmlinux())).get_section_by_name(".symtab")
    symbols = {symbol.name: symbol for symbol in cast("Any", table).iter_symbols()}
    read, magic = symbols["vfs_read"], symbols["__ftrace_prologue_marker"]
    assert (read["st_size"], read["st_info"]["type"], read["st_value"] % 16) == (36, "STT_FUNC", 0)
    assert (magic["st_size"], magic["st_info"]["type"]) == (24, "STT_OBJECT")
