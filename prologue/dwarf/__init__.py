"""Debug information of ELF files, unit by unit."""
