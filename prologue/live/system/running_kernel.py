"""A kernel that runs or ran: its vmlinux with the text that memory has, by link-time address."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prologue.arrays import U32, U64, Bool
from prologue.elf.image import ElfImage, gather_words
from prologue.elf.notes import gnu_build_id
from prologue.elf.sections import Section
from prologue.elf.symbols import Symbols
from prologue.errors import InputError
from prologue.kernel.kernel import Kernel
from prologue.kernel.sites import Sites
from prologue.kernel.text import Text
from prologue.live.memory.base import Memory
from prologue.live.system.running_text import (
    AnotherKernelError,
    LiveSection,
    SectionPlace,
    TextOwnership,
    absent_section,
    read_sections,
)


class LiveText:
    """The live words of a file's executable sections, as rules and tables read them."""

    def __init__(self, image: ElfImage, live: Iterable[LiveSection]) -> None:
        self.text_sections, self.text_map = image.text_sections, image.text_map
        self.live = {section.section.index: section for section in live}
        self._image = image
        self.lifted: dict[int, int] = {}  # breakpoints that were taken out: what stands there

    def lift(self, vaddr: int, word: int, original: int | None) -> bool:
        """Replace ``word``, if it stands there, by what it covers, or by the file's word if that is None.

        Returns:
            Whether it stood there, in text that memory has.

        """
        live, at = self._at(vaddr, 4)
        if live is None or vaddr % 4 or not live.present[at] or int(live.words[at]) != word:
            return False
        live.words[at] = live.linked[at] if original is None else original
        self.lifted[vaddr] = word
        return True

    def _at(self, vaddr: int, size: int) -> tuple[LiveSection | None, int]:
        """Return the text that has so many bytes from an address on in whole words, and which word is the first."""
        section = self.text_map.find(vaddr)
        live = None if section is None else self.live.get(section.index)
        if live is None or vaddr - live.section.addr + size > 4 * len(live.words):
            return None, 0
        return live, (vaddr - live.section.addr) // 4

    def places_of(self, word: int) -> list[int]:
        """Find addresses where that word stands, and the file has another one."""
        places: list[int] = []
        for live in self.live.values():
            at = np.flatnonzero((live.words == np.uint32(word)) & (live.linked != np.uint32(word)) & live.present)
            places += [live.section.addr + 4 * k for k in at.tolist()]
        return places

    def view(self, section: Section, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """View the section's elements, read-only; of sections that are no text those of the file."""
        if section.index not in self.live:
            return self._image.view(section, dtype)
        words = self.live[section.index].words
        return words if dtype == "<u4" else np.frombuffer(words.tobytes(), dtype)

    def read_at(self, vaddr: int, size: int) -> bytes | None:
        """Read bytes by address: of text the running ones, of other sections those of the file."""
        live, at = self._at(vaddr, size)
        if live is None:
            return self._image.read_at(vaddr, size)
        return live.words[at : at + size // 4 + 2].tobytes()[vaddr % 4 :][:size]

    def in_text(self, vaddrs: U64) -> Bool:
        """Return which addresses are 4-aligned and in text that memory has; pages of zeros are no text."""
        return self._inside(vaddrs, lambda live: live.present & ~live.zeros)

    def in_kept_text(self, vaddrs: U64) -> Bool:
        """Return which addresses are 4-aligned and in text that the kernel keeps, whether memory has it or not."""
        return self._inside(vaddrs, lambda live: live.present & ~live.zeros if live.freed else np.ones_like(live.zeros))

    def _inside(self, vaddrs: U64, chosen: Callable[[LiveSection], Bool]) -> Bool:
        inside: Bool = np.zeros(vaddrs.shape, np.bool_)
        aligned: Bool = vaddrs & np.uint64(3) == 0
        for section, places in self.text_map.split(vaddrs):
            of_section = np.append(chosen(self.live[section.index]), False)  # after the last whole word there is none
            at = (vaddrs[places] - np.uint64(section.addr)) >> np.uint64(2)
            inside[places] = of_section[at.astype(np.int64)]
        return inside & aligned

    def words(self, vaddrs: U64) -> U32:
        """Return the instruction word at each address; 0 if there is no text."""
        return self.words_around(vaddrs, (0,))[0]

    def linked(self, vaddrs: U64) -> U32:
        """Return the same of the file."""
        return gather_words(self.text_map, lambda section: self.live[section.index].linked, vaddrs, (0,))[0]

    def words_around(self, vaddrs: U64, distances: Iterable[int]) -> dict[int, U32]:
        """Return, by distance in instructions, the word that far from each address; 0 outside of its section."""
        return gather_words(self.text_map, lambda section: self.live[section.index].words, vaddrs, distances)


class RunningKernel(Kernel):
    """A vmlinux whose text is what memory has; tables, symbols and sites are those of the file."""

    def __init__(self, image: ElfImage, memory: Memory, *, as_linked: bool = False) -> None:
        """Read the text; or take that of the file, ``as_linked``.

        Raises:
            AnotherKernelError: it is not that kernel's.
            InputError: it cannot be read.

        """
        super().__init__(require_own(image, memory))
        self.memory = memory
        self.slide = find_slide(self.symbols, memory)
        self.live_text = LiveText(image, _read_text(image, self.symbols, memory, self.slide, as_linked=as_linked))

    def with_own_text(self) -> RunningKernel:
        """Return the same kernel with a copy of its text, from which an audit takes breakpoints out."""
        kernel = copy(self)
        live = (replace(section, words=section.words.copy()) for section in self.live_text.live.values())
        kernel.live_text = LiveText(self.image, live)
        return kernel

    @property
    def text(self) -> Text:
        """Running text."""
        return self.live_text

    @property
    def running_release(self) -> str:
        """Release by memory, otherwise by the vmlinux; empty if neither says it."""
        return self.memory.info.release or self.release

    @cached_property
    def sites(self) -> Sites | None:
        """The sites by the words of the file: those that run do not tell one layout from another."""
        return self._find_sites(self.image)


def open_running(vmlinux: Path, memory: Memory) -> ElfImage:
    """Open the vmlinux of the kernel in memory; errors as ``require_own``."""
    return require_own(ElfImage(vmlinux), memory)


def require_own(image: ElfImage, memory: Memory) -> ElfImage:
    """Return the vmlinux, if it is of the kernel in memory.

    Raises:
        AnotherKernelError: it has another build-id than the kernel in memory, if that one says.
        InputError: it is a module, or no vmlinux at all.

    """
    if image.relocatable:
        raise InputError("is a module: name the vmlinux, and modules with --modules DIR", path=image.path)
    build_id, runs = gnu_build_id(image), memory.info.build_id
    if runs and build_id and runs != build_id:
        release = f" of {memory.info.release}" if memory.info.release else ""
        raise AnotherKernelError(
            f"is another kernel: its build-id is {build_id}, {memory.name} has {runs}{release}", path=image.path
        )
    return image


def find_slide(symbols: Symbols, memory: Memory) -> int:
    """Find the distance from the kernel's link-time to its run-time addresses, in bytes.

    Raises:
        InputError: memory does not say.

    """
    if memory.info.slide is not None:
        return memory.info.slide
    linked, runs = symbols.find("_stext"), memory.info.anchors.get("_stext")
    if linked is None or runs is None:
        raise InputError(
            "does not say where the kernel runs (no VMCOREINFO, no kallsyms); take a capture as root, or a dump with "
            "VMCOREINFO",
            path=memory.name,
        )
    return runs - linked.vaddr


def _read_text(image: ElfImage, symbols: Symbols, memory: Memory, slide: int, *, as_linked: bool) -> list[LiveSection]:
    """Read every executable section of the kernel in memory, in the order of the file.

    Raises:
        AnotherKernelError: memory has other text.
        InputError: the file has no text, or memory cannot be read.

    """
    if not image.text_sections:
        raise InputError("has no text (only debug information?): this needs the whole vmlinux", path=image.path)
    ownership = TextOwnership(symbols, memory, slide)
    placed = [
        SectionPlace(section, image.view(section, "<u4"), section.addr + slide, ownership.may_be_freed(section))
        for section in image.text_sections
    ]
    if as_linked:
        whole = [np.ones(len(section.linked), np.bool_) for section in placed]
        pairs = zip(placed, whole, strict=True)
        return [replace(absent_section(section), present=present, freed=section.freed) for section, present in pairs]
    read = zip(read_sections(memory, placed), placed, strict=True)
    live = [section if ownership.is_there(section) else absent_section(source) for section, source in read]
    ownership.require_main(live)
    return live
