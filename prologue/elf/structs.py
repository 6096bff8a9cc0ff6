"""Headers as bytes (System V gABI, "ELF Header", "Sections", "Program Header"), read and written without a library.

Loading pyelftools takes as long as a good part of patching a kernel.
"""

from __future__ import annotations

import struct
from typing import Final

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
