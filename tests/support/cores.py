"""Cores for tests: written with struct and read back with pyelftools, so that they share nothing with the tool."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from elftools.elf.elffile import ELFFile

SLIDE = 0x2F0000000000
BUILD_ID = "0123456789abcdef0123456789abcdef01234567"
NO_PADDR = (1 << 64) - 1


def core(
    segments: Sequence[tuple[int, int, bytes]], notes: Sequence[tuple[str, int, bytes]] = (), machine: int = 183
) -> bytes:
    """An ELF core; segments are (address, physical address, bytes), notes (name, type, bytes)."""
    noted = b"".join(_note(*note) for note in notes)
    count = len(segments) + 1
    at = 64 + 56 * count
    headers = [struct.pack("<IIQQQQQQ", 4, 4, at, 0, 0, len(noted), 0, 4)]
    at += len(noted)
    for vaddr, paddr, data in segments:
        headers.append(struct.pack("<IIQQQQQQ", 1, 7, at, vaddr, paddr, len(data), len(data), 1))
        at += len(data)
    ident = b"\x7fELF\x02\x01\x01" + b"\0" * 9
    head = ident + struct.pack("<HHIQQQIHHHHHH", 4, machine, 1, 0, 64, 0, 0, 64, 56, count, 0, 0, 0)
    return head + b"".join(headers) + noted + b"".join(data for _, _, data in segments)


def _note(name: str, kind: int, data: bytes) -> bytes:
    label = name.encode() + b"\0"
    padded = [part + b"\0" * (-len(part) % 4) for part in (label, data)]
    return struct.pack("<III", len(label), len(data), kind) + b"".join(padded)


def vmcoreinfo(slide: int = SLIDE, stext: int | None = None) -> tuple[str, int, bytes]:
    """A note as the kernel writes it; ``stext`` is a run-time address, else the mini kernel's."""
    stext = 0xFFFF800008001000 + slide if stext is None else stext
    text = f"OSRELEASE=6.1.0-mini\nBUILD-ID={BUILD_ID}\nPAGESIZE=4096\nSYMBOL(_stext)={stext:x}\n"
    text += "NUMBER(VA_BITS)=48\nNUMBER(TCR_EL1_T1SZ)=0x10\n"
    return "VMCOREINFO", 0, f"{text}KERNELOFFSET={slide:x}\n".encode()


def image_of(vmlinux: Path) -> tuple[int, bytearray]:
    """What lies in memory once a vmlinux is loaded: the lowest address, and the bytes from there on."""
    with vmlinux.open("rb") as stream:
        loads = [s for s in cast("Any", ELFFile(stream)).iter_segments() if s["p_type"] == "PT_LOAD"]
        start = min(load["p_vaddr"] for load in loads)
        image = bytearray(max(load["p_vaddr"] + load["p_memsz"] for load in loads) - start)
        for load in loads:
            at = load["p_vaddr"] - start
            image[at : at + load["p_filesz"]] = load.data()
    return start, image


def running(vmlinux: Path, changes: Mapping[int, int], slide: int = SLIDE) -> bytes:
    """A core of a kernel that runs at ``slide``, with words (by link-time address) that it has changed."""
    start, image = image_of(vmlinux)
    for vaddr, word in changes.items():
        struct.pack_into("<I", image, vaddr - start, word)
    return core([(start + slide, NO_PADDR, bytes(image))], [vmcoreinfo(slide)])


RAM = 0x40000000
_PAGE = 4096


def machine(
    vmlinux: Path, changes: Mapping[int, int], unmapped: range = range(0), stale: bytes = b"", slide: int = SLIDE
) -> bytes:
    """A dump of a machine that runs the kernel at ``slide``: physical memory, page tables, VMCOREINFO among the data.

    ``unmapped`` are link-time addresses whose memory has become somebody else's; ``stale`` lies before all else.
    """
    start, image = image_of(vmlinux)
    for vaddr, word in changes.items():
        struct.pack_into("<I", image, vaddr - start, word)
    pages = -(-len(image) // _PAGE)
    image = image.ljust(pages * _PAGE, b"\0")
    tables = _Tables(RAM + (pages + 1) * _PAGE)
    for page in range(pages):
        vaddr = start + page * _PAGE
        if vaddr in unmapped:
            image[page * _PAGE : (page + 1) * _PAGE] = b"user" * (_PAGE // 4)
        else:
            tables.map(vaddr + slide, RAM + (page + 1) * _PAGE)
    voffset = start + slide - (RAM + _PAGE)
    more = (
        f"NUMBER(VA_BITS)=48\nNUMBER(TCR_EL1_T1SZ)=0x10\nNUMBER(PHYS_OFFSET)={RAM:#x}\n"
        f"NUMBER(kimage_voffset)={voffset:#x}\nSYMBOL(swapper_pg_dir)={tables.root + voffset:x}\n"
    )
    text = vmcoreinfo(slide)[2] + more.encode() + b"\0"
    memory = stale.ljust(_PAGE, b"\0") + bytes(image) + bytes(tables.content) + b"OSRELEASE=%s\n\0" + text
    assert len(stale) <= _PAGE
    return core([(RAM, RAM, memory.ljust(-(-len(memory) // _PAGE) * _PAGE, b"\0"))])


class _Tables:
    """Page tables of four levels with 4 KiB pages (Arm ARM, "VMSAv8-64 translation table format descriptors")."""

    def __init__(self, root: int) -> None:
        self.root = root
        self.content = bytearray(_PAGE)

    def map(self, vaddr: int, paddr: int) -> None:
        table = 0
        for shift in (39, 30, 21):
            at = table + (vaddr >> shift & 511) * 8
            if not (entry := self._entry(at)):
                entry = self.root + len(self.content) | 3
                self.content += bytes(_PAGE)
                struct.pack_into("<Q", self.content, at, entry)
            table = (entry & ~(_PAGE - 1)) - self.root
        struct.pack_into("<Q", self.content, table + (vaddr >> 12 & 511) * 8, paddr | 0x703)

    def _entry(self, at: int) -> int:
        return int(struct.unpack_from("<Q", self.content, at)[0])
