"""The text of a file: where it runs, and as tools that are not ours read it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, cast

import numpy as np
from elftools.elf.elffile import ELFFile

from prologue.arrays import U32
from prologue.elf.image import ElfImage
from tests.support.compare import addresses
from tests.support.needs import needs_tools


def text_at(path: Path, slide: int) -> list[tuple[int, U32]]:
    """Run-time address and words of each executable section."""
    image = ElfImage(path)
    sections = [(s.addr + slide, image.read_at(s.addr, s.size)) for s in image.text_sections]
    return [(vaddr, np.frombuffer(data, "<u4")) for vaddr, data in sections if data]


def texts(path: Path) -> dict[str, tuple[int, bytes]]:
    """Address and bytes of every executable section; read with pyelftools."""
    with path.open("rb") as stream:
        sections = cast("Any", ELFFile(stream)).iter_sections()
        return {
            s.name: (s["sh_addr"], s.data())
            for s in sections
            if s["sh_flags"] & 6 == 6 and s["sh_type"] != "SHT_NOBITS"
        }


def require_only_text_differs(before: Path, after: Path) -> None:
    """Compare two files: they differ in text only, and LIEF reads the same text there."""
    import lief  # a second

    old, new = (np.fromfile(path, np.uint8) for path in (before, after))
    assert len(old) == len(new)
    differ = np.flatnonzero(old != new)
    with after.open("rb") as stream:
        text = [s for s in cast("Any", ELFFile(stream)).iter_sections() if s["sh_flags"] & 6 == 6]
    inside = np.zeros(len(differ), np.bool_)
    for section in text:
        inside |= (differ >= section["sh_offset"]) & (differ < section["sh_offset"] + section["sh_size"])
    assert addresses(differ[~inside]) == []  # offsets in the file
    binary = lief.parse(str(after))
    assert isinstance(binary, lief.ELF.Binary)
    assert {s.name: bytes(s.content) for s in binary.sections if s.name == ".text"} == {
        ".text": texts(after)[".text"][1]
    }


def disassembled(tool: str, path: Path, vaddr: int, *options: str) -> str:
    """Disassemble eight instructions."""
    needs_tools(tool)
    place = [f"--start-address={vaddr:#x}", f"--stop-address={vaddr + 32:#x}"]
    return subprocess.run([tool, "-d", *options, *place, str(path)], capture_output=True, text=True, check=True).stdout
