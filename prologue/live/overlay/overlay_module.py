"""Writes modules with the text that runs, linked where it was loaded: an ET_EXEC made of each ``.ko``.

Sections, symbols and relocations are those of the placed module (``live/system/placed_module``). Executable sections
hold what memory has; PLT entries, of which the file has one byte, stand at its end.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

from prologue.elf.sections import SHF_ALLOC, SHF_EXECINSTR, Section
from prologue.elf.structs import PHDR, SHDR
from prologue.errors import PrologueError
from prologue.live.overlay.overlay_text import OverlaidFile, SectionText, section_text
from prologue.live.system.module_files import ModuleFile
from prologue.live.system.running_module import RunningModule
from prologue.live.system.running_system import RunningSystem
from prologue.outputs import new_file, require_other

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
