"""Headers as bytes, sections, and which of them an address is in: a module may have as many sections as functions.

Headers (System V gABI, "ELF Header", "Sections", "Program Header") are read and written without a library: loading
pyelftools takes as long as a good part of patching a kernel.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

import numpy as np

from prologue.arrays import I64, U64
from prologue.errors import InputError

EHDR: Final = struct.Struct("<16sHHIQQQIHHHHHH")  # Elf64_Ehdr
SHDR: Final = struct.Struct("<IIQQQQIIQQ")  # Elf64_Shdr
PHDR: Final = struct.Struct("<IIQQQQQQ")  # Elf64_Phdr
# Numbers that say "too many for this field: see section 0".
SHN_XINDEX: Final = 0xFFFF
PN_XNUM: Final = 0xFFFF
SECTION_TYPES: Final = {
    0: "SHT_NULL", 1: "SHT_PROGBITS", 2: "SHT_SYMTAB", 3: "SHT_STRTAB", 4: "SHT_RELA", 5: "SHT_HASH", 6: "SHT_DYNAMIC",
    7: "SHT_NOTE", 8: "SHT_NOBITS", 9: "SHT_REL", 11: "SHT_DYNSYM", 14: "SHT_INIT_ARRAY", 15: "SHT_FINI_ARRAY",
    17: "SHT_GROUP", 18: "SHT_SYMTAB_SHNDX", 19: "SHT_RELR",
}  # fmt: skip
SHF_WRITE: Final = 1
SHF_ALLOC: Final = 2
SHF_EXECINSTR: Final = 4
SHF_TLS: Final = 0x400
# Sections that are never NOBITS if they are not empty: code and tables that the tool reads by name.
_CODE: Final = (".text", ".init.text", ".exit.text", ".noinstr.text", ".hyp.text", ".hyp.idmap.text", ".rodata.text")
_DATA: Final = (".rodata", ".init.data", ".data", ".altinstructions", ".modinfo", ".gnu.linkonce.this_module")
_TABLES: Final = ("__ex_table", "__bug_table", "__jump_table", "__patchable_function_entries")
_ALWAYS_BYTES: Final = frozenset((*_CODE, *_DATA, *_TABLES, ".rela.dyn", ".relr.dyn"))
# Placeholders of modules, which the module loader sizes itself and makes NOBITS (arch/arm64/kernel/module-plts.c, 6.1).
_PLACEHOLDERS: Final = frozenset({".plt", ".init.plt", ".text.ftrace_trampoline", ".init.text.ftrace_trampoline"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section header; ``type`` is its name (``SECTION_TYPES``), or the number as text."""

    index: int
    name: str
    type: str
    flags: int
    addr: int
    offset: int
    size: int
    link: int
    info: int
    entsize: int

    @property
    def has_bytes(self) -> bool:
        """True if the section occupies bytes of the file."""
        return self.type not in ("SHT_NOBITS", "SHT_NULL") and self.size > 0

    @property
    def allocated(self) -> bool:
        """True if the section is part of the running image.

        ``.tbss`` of a program is not: each thread has a copy elsewhere, and other sections have its addresses.
        """
        return bool(self.flags & SHF_ALLOC) and not (self.flags & SHF_TLS and self.type == "SHT_NOBITS")

    @property
    def executable(self) -> bool:
        """True if the section is executable memory of the running image."""
        return self.flags & (SHF_ALLOC | SHF_EXECINSTR) == SHF_ALLOC | SHF_EXECINSTR

    @property
    def is_text(self) -> bool:
        """Executable, allocated and file-backed: the only place where a patch site may be."""
        return self.has_bytes and self.executable

    def __contains__(self, vaddr: int) -> bool:
        return self.addr <= vaddr < self.addr + self.size


class Extent(Protocol):
    """Extent of a section, or of a piece of text."""

    @property
    def addr(self) -> int:
        """Address of its first byte."""

    @property
    def size(self) -> int:
        """Bytes of it."""


_E = TypeVar("_E", bound=Extent)


class SectionMap(Generic[_E]):
    """Sections, or pieces of text, that share no address, by address; empty ones are left out."""

    def __init__(self, sections: Iterable[_E]) -> None:
        self.sections = sorted((s for s in sections if s.size), key=lambda section: section.addr)
        self._low = [s.addr for s in self.sections]
        self._starts = np.array(self._low, np.uint64)
        self._ends = np.array([s.addr + s.size for s in self.sections], np.uint64)

    def find(self, vaddr: int) -> _E | None:
        """Return the section whose addresses contain ``vaddr``."""
        at = bisect_right(self._low, vaddr) - 1
        return self.sections[at] if at >= 0 and vaddr - self._low[at] < self.sections[at].size else None

    def indices(self, vaddrs: U64) -> I64:
        """Return the index in ``sections`` of each address's section, -1 if there is none; shape of ``vaddrs``."""
        if not self.sections:
            return np.full(vaddrs.shape, -1, np.int64)
        index = np.searchsorted(self._starts, vaddrs, side="right") - 1
        return np.where(vaddrs < self._ends[index], index, -1)  # below all of them, index is -1: the last one's end

    def counts(self, vaddrs: U64) -> I64:
        """Count the addresses in each of ``sections``."""
        index = self.indices(vaddrs)
        return np.bincount(index[index >= 0], minlength=len(self.sections))

    def split(self, vaddrs: U64) -> Iterator[tuple[_E, slice | I64]]:
        """Yield each section with addresses of the array, shape (n,), and their places: a slice if all ascend."""
        ascends = bool((vaddrs[1:] >= vaddrs[:-1]).all())
        order = None if ascends else np.argsort(vaddrs, kind="stable")
        ordered = vaddrs if order is None else vaddrs[order]
        firsts = np.searchsorted(ordered, self._starts)
        lasts = np.searchsorted(ordered, self._ends)
        for k in np.flatnonzero(lasts > firsts).tolist():
            place = slice(int(firsts[k]), int(lasts[k]))
            yield self.sections[k], place if order is None else order[place]


def require_bytes(sections: Iterable[Section], path: Path) -> None:
    """Refuse a file whose code or tables have no bytes: read as a kernel it looks like one without ftrace.

    ``objcopy --only-keep-debug`` and ``eu-strip -f`` turn every allocated section into SHT_NOBITS, notes excepted.

    Raises:
        InputError: a separate debug file, or a file whose sections were emptied one by one.

    """
    loaded = [s for s in sections if s.allocated and s.size and s.type not in ("SHT_NULL", "SHT_NOTE")]
    loaded = [s for s in loaded if s.name not in _PLACEHOLDERS]
    empty = [s for s in loaded if s.type == "SHT_NOBITS"]
    wrong = [s for s in empty if s.executable or s.name in _ALWAYS_BYTES]
    if wrong and len(empty) == len(loaded):
        raise InputError(
            "a separate debug file, its sections have no bytes: give the file that it was made from", path=path
        )
    if wrong:
        raise InputError(
            f"section {wrong[0].name} has no bytes (NOBITS), as in a separate debug file: "
            "give the file as it was linked",
            path=path,
        )
