"""Headers that are read or written as bytes (System V gABI, "Sections", "Program Header")."""

from __future__ import annotations

import struct
from typing import Final

SHDR: Final = struct.Struct("<IIQQQQIIQQ")  # Elf64_Shdr
PHDR: Final = struct.Struct("<IIQQQQQQ")  # Elf64_Phdr
