"""A vmlinux with the text that runs; symbols, line tables, DWARF and build-id stay.

Addresses are those of the file, or those of the running kernel (``overlay/runtime``).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from prologue.elf.image import ElfImage
from prologue.elf.notes import gnu_build_id
from prologue.elf.symbols import Symbols
from prologue.errors import InputError
from prologue.memory.base import Memory
from prologue.memory.reading import read_twice
from prologue.outputs import new_file, require_other
from prologue.overlay.runtime import carry_out, find_moves
from prologue.overlay.text import SectionText, kept_text, running_text, text_range
from prologue.sites.own_text import OwnText
from prologue.sites.running import find_slide, open_running
from prologue.write.copying import copied_meanwhile


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlaidKernel:
    """A vmlinux that was written; ``slide`` in bytes, ``runtime`` if its addresses have it."""

    path: Path
    release: str
    build_id: str
    slide: int
    runtime: bool
    sections: tuple[SectionText, ...]


def overlay_kernel(vmlinux: Path, memory: Memory, out: Path, *, runtime: bool = False) -> OverlaidKernel:
    """Write a copy of ``vmlinux`` whose executable sections hold what ``memory`` has.

    Its addresses stay, or become those at which the kernel runs (``runtime``).

    Raises:
        InputError: no unstripped vmlinux, or not the one of the kernel in memory; or memory cannot be read; or, for
            run-time addresses, its debug sections are compressed.
        OutputError: ``out`` is an input, a link or no regular file, or cannot be written.

    """
    require_other(out, vmlinux, Path(memory.name))
    image = open_running(vmlinux, memory)
    with new_file(out, like=vmlinux) as temporary, copied_meanwhile(vmlinux, temporary) as wait:
        symbols = Symbols(image)
        slide = find_slide(symbols, memory)
        sections = tuple(running_sections(image, symbols, memory, slide))
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
    return OverlaidKernel(
        path=out,
        release=memory.info.release,
        build_id=gnu_build_id(image),
        slide=slide,
        runtime=runtime,
        sections=sections,
    )


def running_sections(image: ElfImage, symbols: Symbols, memory: Memory, slide: int) -> list[SectionText]:
    """The executable sections as memory has them, in the order of the file.

    Raises:
        InputError: the file has no text, or memory cannot be read, or has other text.

    """
    if not image.text_sections:
        raise InputError("has no text (only debug information?): this needs the whole vmlinux", path=image.path)
    own = OwnText(symbols, memory, slide)
    places = [section.addr + slide for section in image.text_sections]
    memories = read_twice(memory, list(map(text_range, image.text_sections, places)))
    found = []
    for section, vaddr, live in zip(image.text_sections, places, memories, strict=True):
        text = running_text(image, section, vaddr, live)
        if not own.is_there(section, text.taken, text.changed):
            text = kept_text(image, section, vaddr)
        found.append(text)
    own.require_main((section, text.taken) for section, text in zip(image.text_sections, found, strict=True))
    return found
