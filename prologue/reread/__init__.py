"""The independent reader: LIEF and plain Python, no code of the rest of this package."""
