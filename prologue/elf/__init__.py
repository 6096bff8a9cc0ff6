"""Reads ELF files: headers and sections, symbols, dynamic relocations."""
