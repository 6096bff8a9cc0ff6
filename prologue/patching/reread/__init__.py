"""The independent reader: LIEF and plain Python. It shares no code with the rest of this package but its errors."""
