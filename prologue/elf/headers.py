"""The three kinds of ELF headers, by pyelftools' structures.

Its ``ELFFile`` reads the same, but loads a DWARF reader first: that takes as long as a good part of patching a kernel.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from elftools.common.exceptions import ELFError
from elftools.common.utils import struct_parse
from elftools.construct.core import ConstructError
from elftools.elf.structs import ELFStructs

PARSE_ERRORS: Final = (ELFError, ConstructError, ValueError, KeyError, IndexError, OverflowError, OSError)
"""What damaged headers raise."""

# Numbers that say "too many for this field: see section 0" (System V gABI, "ELF Header").
_SHN_XINDEX: Final = 0xFFFF
_PN_XNUM: Final = 0xFFFF


@lru_cache(maxsize=1)
def _file_header() -> Any:
    """Return the structure of a file's header, which all kinds of files share."""
    structs = ELFStructs(little_endian=True, elfclass=64)
    structs.create_basic_structs()
    return structs.Elf_Ehdr


@lru_cache(maxsize=8)
def _structures(e_type: Any, e_machine: Any, osabi: Any) -> ELFStructs:
    """Make the structures of one kind of file: that takes longer than reading all headers of a small module."""
    structs = ELFStructs(little_endian=True, elfclass=64)
    structs.create_basic_structs()
    structs.create_advanced_structs(e_type, e_machine, osabi)
    return structs


class Headers:
    """The headers of a 64-bit little-endian file, parsed and not checked; fields have the names of ``<elf.h>``.

    Raises:
        PARSE_ERRORS: no such header, here and from the methods.

    """

    def __init__(self, stream: Any) -> None:
        """Read the file's header; ``stream`` reads and seeks, as files, ``BytesIO`` and ``mmap`` do."""
        self._stream = stream
        self.file: Any = self._parse(_file_header(), 0)
        structs = _structures(self.file["e_type"], self.file["e_machine"], self.file["e_ident"]["EI_OSABI"])
        # With their sizes: computing the size anew for every header takes as long as reading half of one.
        self._section, self._segment = ((s, s.sizeof()) for s in (structs.Elf_Shdr, structs.Elf_Phdr))

    def _parse(self, struct: Any, offset: int) -> Any:
        return struct_parse(struct, self._stream, stream_pos=offset)

    @property
    def section_count(self) -> int:
        """Number of section headers; 0 without a table."""
        if not self.file["e_shoff"]:
            return 0
        return int(self.file["e_shnum"] or self.section(0)["sh_size"])

    @property
    def segment_count(self) -> int:
        """Number of program headers."""
        count = int(self.file["e_phnum"])
        return count if count != _PN_XNUM else int(self.section(0)["sh_info"])

    @property
    def names_index(self) -> int:
        """Index of the section that holds the sections' names."""
        index = int(self.file["e_shstrndx"])
        return index if index != _SHN_XINDEX else int(self.section(0)["sh_link"])

    def section(self, index: int) -> Any:
        """Return the section header of that index."""
        return self._entry(*self._section, "e_shoff", "e_shentsize", index)

    def segment(self, index: int) -> Any:
        """Return the program header of that index."""
        return self._entry(*self._segment, "e_phoff", "e_phentsize", index)

    def _entry(self, struct: Any, least: int, table: str, entry_size: str, index: int) -> Any:
        size = int(self.file[entry_size])
        if size < least:
            raise ELFError(f"{entry_size} is {size}, too small")
        return self._parse(struct, int(self.file[table]) + index * size)
