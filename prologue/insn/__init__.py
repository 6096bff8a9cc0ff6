"""A64 instruction words: encodings, the CMODX lists, disassembly."""
