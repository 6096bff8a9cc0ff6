"""Listings: a small kernel as text, which becomes an ELF file. No assembler is needed, for each word is written out.

A line begins a ``section NAME FLAGS ADDRESS``, names what follows (``function``, ``object`` or ``label``), or has
content: an instruction (its word, then its text), ``quad VALUE``, ``word VALUE``, ``ascii "TEXT"``, ``zeros SIZE``, or
``space SIZE`` for memory that the file does not have. ``align SIZE`` fills text with NOPs. Comments begin with ``#``.
"""

from __future__ import annotations

import ast
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from prologue.elf.sections import SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE
from prologue.elf.symbols import STT_FUNC, STT_NOTYPE, STT_OBJECT, SYM
from prologue.elf.written import NewSection, write_executable
from prologue.insn.a64 import NOP

_FLAGS: Final = {"A": SHF_ALLOC, "W": SHF_WRITE, "X": SHF_EXECINSTR}
_TYPES: Final = {"function": STT_FUNC, "object": STT_OBJECT, "label": STT_NOTYPE}
_GLOBAL: Final = 1 << 4  # STB_GLOBAL, in st_info


@dataclass(slots=True, kw_only=True)
class ListedSection:
    """A section of a listing: its flags as ELF has them, its address, and its bytes."""

    name: str
    flags: int
    vaddr: int
    data: bytearray = field(default_factory=bytearray)
    absent: bool = False  # from ``space``: the file has none of its bytes

    @property
    def end(self) -> int:
        """Address of the byte after it."""
        return self.vaddr + len(self.data)


@dataclass(slots=True)
class ListedSymbol:
    """A symbol of a listing: its type, the number of its section from 1 on, and its size in bytes (0 for a label)."""

    kind: int
    section: int
    vaddr: int
    size: int = 0


class KernelListing:
    """A kernel that was read from its listing; ``insns`` has the text of each instruction by address.

    The text is one of ours: what is wrong in it raises KeyError or ValueError.
    """

    def __init__(self, text: str) -> None:
        self.sections = list[ListedSection]()
        self.symbols = dict[str, ListedSymbol]()
        self.insns = dict[int, str]()
        self._quads = list[tuple[ListedSection, int, str]]()
        self._open: ListedSymbol | None = None
        for line in text.splitlines():
            if line and not line.startswith("#"):
                self._read(line.strip())
        self._close()
        for section, at, value in self._quads:
            struct.pack_into("<Q", section.data, at, self.address(value))

    def address(self, place: str) -> int:
        """Return the address of ``SYMBOL+OFFSET``; a number stands for itself."""
        name, _, offset = place.partition("+")
        base = self.symbols[name].vaddr if name in self.symbols else int(name, 0)
        return base + int(offset or "0", 0)

    def change(self, words: Mapping[str, str]) -> None:
        """Put other instructions, each its word and its text, at these places."""
        for place, insn in words.items():
            vaddr = self.address(place)
            (section,) = (each for each in self.sections if each.vaddr <= vaddr < each.end)
            word, _, self.insns[vaddr] = insn.partition("  ")
            struct.pack_into("<I", section.data, vaddr - section.vaddr, int(word, 16))

    def vmlinux(self) -> bytes:
        """Make the ELF file, with a symbol for all that has a name."""
        table = np.zeros(len(self.symbols), SYM)
        for row, symbol in enumerate(self.symbols.values()):
            table[row] = (row, _GLOBAL | symbol.kind, 0, symbol.section, symbol.vaddr, symbol.size)
        sections = [
            NewSection(
                name=s.name, vaddr=s.vaddr, size=len(s.data), data=None if s.absent else bytes(s.data), flags=s.flags
            )
            for s in self.sections
        ]
        return write_executable(sections, table, list(self.symbols))

    def _read(self, line: str) -> None:
        verb, _, rest = line.partition(" ")
        if verb == "section":
            self._close()
            name, flags, vaddr = rest.split()
            self.sections.append(
                ListedSection(name=name, flags=sum(_FLAGS[flag] for flag in flags), vaddr=int(vaddr, 0))
            )
        elif verb in _TYPES:
            self._close()
            self._begin(rest, _TYPES[verb])
        elif verb == "align":  # no part of the function before it
            self._close()
            section = self.sections[-1]
            section.data += NOP.to_bytes(4, "little") * (-section.end % int(rest) // 4)
        else:
            self._add(self.sections[-1], verb, rest.strip())

    def _begin(self, name: str, kind: int) -> None:
        section = self.sections[-1]
        self.symbols[name] = symbol = ListedSymbol(kind, len(self.sections), section.end)
        self._open = symbol if kind else None

    def _add(self, section: ListedSection, verb: str, operand: str) -> None:
        if verb == "quad":
            self._quads.append((section, len(section.data), operand))
            section.data += bytes(8)
        elif verb == "ascii":
            section.data += str(ast.literal_eval(operand)).encode()
        elif verb == "word":
            section.data += struct.pack("<I", int(operand, 0))
        elif verb in ("zeros", "space"):
            section.data += bytes(int(operand, 0))
            section.absent = verb == "space"
        else:
            self.insns[section.end] = operand
            section.data += struct.pack("<I", int(verb, 16))

    def _close(self) -> None:
        """Give the function or object that was begun last its size."""
        if self._open is not None:
            self._open.size = self.sections[self._open.section - 1].end - self._open.vaddr
            self._open = None
