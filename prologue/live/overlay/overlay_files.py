"""Files with the text that runs: a vmlinux, and modules linked where they were loaded.

Of a vmlinux, symbols, line tables, DWARF and build-id stay; addresses are those of the file, or those of the running
kernel (``live/overlay/runtime``). Of a ``.ko`` an ET_EXEC is made: sections, symbols and relocations are those of the
placed module (``live/system/placed_module``); PLT entries, of which the file has one byte, stand at its end.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from prologue.arrays import U64
from prologue.elf.image import ElfImage
from prologue.elf.sections import PHDR, SHDR, SHF_ALLOC, SHF_EXECINSTR, Section
from prologue.errors import PrologueError
from prologue.live.overlay.runtime import carry_out, find_moves
from prologue.live.system.running_module import RunningModule
from prologue.live.system.running_system import ModuleFile, RunningSystem
from prologue.live.system.running_text import LiveSection
from prologue.outputs import new_file, require_other
from prologue.patching.copying import copied_meanwhile


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionText:
    """Result for a section; counts are of 4-byte words.

    ``changed`` differ from the file, ``kept`` stay as the file has them because memory has nothing there; ``missing``
    of these are in text that the kernel does not give away. ``zeros`` are in pages of zeros, which memory has and the
    file has not. ``unstable`` are run-time addresses of words that still changed after several readings. ``data`` is
    what the section gets.
    """

    name: str
    offset: int
    vaddr: int
    words: int
    changed: int
    kept: int
    missing: int
    zeros: int
    unstable: tuple[int, ...]
    data: bytes

    @property
    def taken(self) -> int:
        """Words that are memory's."""
        return self.words - self.kept


class OverlaidFile(NamedTuple):
    """A vmlinux or module that was written."""

    name: str
    path: Path
    sections: tuple[SectionText, ...]


def section_text(image: ElfImage, live: LiveSection, slide: int, relocated: U64 | None = None) -> SectionText:
    """Describe a section that runs ``slide`` bytes from where the file has it.

    Words at addresses in ``relocated`` do not count as changed: a loader had to fill them in.
    """
    section, linked = live.section, image.data(live.section)
    differ = live.words != image.view(section, "<u4")
    if relocated is not None:
        rows = (relocated - np.uint64(section.addr)) >> np.uint64(2)  # of other sections: beyond all
        differ[rows[rows < len(differ)].astype(np.int64)] = False
    return SectionText(
        name=section.name,
        offset=section.offset,
        vaddr=section.addr + slide,
        words=len(live.words),
        changed=int(differ.sum()),
        kept=int((~live.present).sum()),
        missing=live.missing,
        zeros=int(live.zeros.sum()),
        unstable=tuple(place + slide for place in live.unstable),
        data=live.words.astype("<u4").tobytes() + linked[4 * len(live.words) :],
    )


def overlay_kernel(system: RunningSystem, out: Path, *, runtime: bool = False) -> OverlaidFile:
    """Write a copy of the vmlinux whose executable sections hold what memory has.

    Its addresses stay, or become those at which the kernel runs (``runtime``).

    Raises:
        InputError: no unstripped vmlinux, or memory of another kernel, or that cannot be read; or, for run-time
            addresses, its debug sections are compressed.
        OutputError: ``out`` is an input, a link or no regular file, or cannot be written.

    """
    image, vmlinux = system.image, system.image.path
    require_other(out, vmlinux, Path(system.memory.name))
    with new_file(out, like=vmlinux) as temporary, copied_meanwhile(vmlinux, temporary) as wait:
        slide = system.kernel.slide
        sections = tuple(section_text(image, live, slide) for live in system.kernel.live_text.live.values())
        taken = [range(section.offset, section.offset + len(section.data)) for section in sections if section.taken]
        moves = find_moves(image, slide, taken) if runtime and slide else None
        wait()
        with temporary.open("r+b") as stream:
            for section in sections:
                if section.changed:
                    stream.seek(section.offset)
                    stream.write(section.data)
            stream.flush()
            if moves is not None:
                carry_out(moves, stream.fileno())
    return OverlaidFile("kernel", out, sections)


# Offsets in Elf64_Ehdr (System V gABI, "ELF Header").
_E_PHOFF, _E_SHOFF, _E_PHENTSIZE = 32, 40, 54
_PT_LOAD, _SHT_NOBITS = 1, 8


class OverlaidModules(NamedTuple):
    """Modules that were written, names of loaded ones that have no file, and what went wrong with others."""

    written: tuple[OverlaidFile, ...]
    missing: tuple[str, ...]
    errors: tuple[PrologueError, ...]


def overlay_module(module: RunningModule, out: Path) -> OverlaidFile:
    """Write a module as it runs.

    Raises:
        OutputError: ``out`` cannot be written.

    """
    content = bytearray(module.image.content)
    relocated = module.placed.relocated
    sections = [section_text(module.image, live, 0, relocated) for live in module.live_text.live.values()]
    for text in sections:
        content[text.offset : text.offset + len(text.data)] = text.data
    sections += [_append_plt(content, section, vaddr, module) for vaddr, section in module.placed.plts.items()]
    _add_segments(content, len(module.image.sections))
    with new_file(out) as temporary:
        temporary.write_bytes(content)
    return OverlaidFile(module.placed.loaded.name, out, tuple(sections))


def overlay_modules(system: RunningSystem, out: Path) -> OverlaidModules:
    """Write every loaded module that has a file to ``out``/NAME.ko."""

    def overlay(file: ModuleFile) -> OverlaidFile:
        name = file.loaded.name
        path = out / f"{name}.ko"
        require_other(path, Path(system.memory.name), *(system.files or {}).get(name, ()))
        return overlay_module(system.read_module(file), path)

    opened = list(system.open_modules(overlay))
    return OverlaidModules(
        written=tuple(module for _, module, _ in opened if module is not None),
        missing=tuple(loaded.name for loaded, module, errors in opened if module is None and not errors),
        errors=tuple(error for _, _, errors in opened for error in errors),
    )


def _append_plt(content: bytearray, section: Section, vaddr: int, module: RunningModule) -> SectionText:
    """Give a section its PLT entries, at the end of the file."""
    data, offset = module.read_plt(vaddr), section.offset
    if data:
        content += b"\0" * (-len(content) % 8)
        offset = len(content)
        content += data
    at = _headers_at(content) + section.index * SHDR.size
    header = list(SHDR.unpack_from(content, at))
    header[2:6] = section.flags, vaddr, offset, len(data) or section.size
    SHDR.pack_into(content, at, *header)
    words = len(data) // 4
    return SectionText(
        name=section.name, offset=offset, vaddr=vaddr, words=words, changed=words, kept=0, missing=0, zeros=0,
        unstable=(), data=data,
    )  # fmt: skip


def _headers_at(content: bytearray) -> int:
    return int(struct.unpack_from("<Q", content, _E_SHOFF)[0])


def _add_segments(content: bytearray, sections: int) -> None:
    """Add a PT_LOAD for each section in memory, for readers that go by segments."""
    content += b"\0" * (-len(content) % 8)
    start, count = len(content), 0
    for index in range(sections):
        header = SHDR.unpack_from(content, _headers_at(content) + index * SHDR.size)
        _, kind, flags, vaddr, offset, size, *_ = header
        if flags & SHF_ALLOC and size and kind != _SHT_NOBITS:
            access = 4 | (flags & 1) << 1 | (flags & SHF_EXECINSTR) >> 2
            content += PHDR.pack(_PT_LOAD, access, offset, vaddr, vaddr, size, size, 1)
            count += 1
    struct.pack_into("<Q", content, _E_PHOFF, start)
    struct.pack_into("<HH", content, _E_PHENTSIZE, PHDR.size, count)
