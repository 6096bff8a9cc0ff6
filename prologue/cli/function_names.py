"""Functions for the completion of shells: what a script that completes asks for at each press of a key."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols
from prologue.errors import PrologueError


def functions_of(prefix: str, words: Sequence[str]) -> list[str]:
    """Return the functions whose names begin with ``prefix``, of each kernel and module that a command line names.

    Sorted; only the symbol tables are read. Nothing without a prefix, for a kernel has more than anybody reads. Words
    that are no such file are passed over: a line that is not finished may have anything.
    """
    names: set[str] = set()
    paths = {part for word in words for part in word.split("=")} if prefix else set()
    for path in paths - {""}:
        with suppress(PrologueError, OSError, ValueError):  # no such file, or no such name of one
            names.update(Symbols(ElfImage(Path(path).expanduser())).function_names(prefix))
    return sorted(names)
