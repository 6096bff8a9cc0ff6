"""Lines of text: tables, and equal texts of many files on one line, for hundreds of modules may have one cause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Final

from prologue.words import counted, printable

FEW: Final = 3  # files that are named one by one


def named(paths: list[str]) -> str:
    """Name files as in ``992 files (a.ko, b.ko, c.ko, ...)``; a single file by its path."""
    if len(paths) == 1:
        return printable(paths[0])
    names = [printable(PurePath(path).name) for path in paths[:FEW]]
    return f"{counted(len(paths), 'file')} ({', '.join(names)}{', ...' if len(paths) > FEW else ''})"


def one_line_each(texts: Iterable[tuple[str | None, str]]) -> list[str]:
    """Make lines of pairs of a file (or None) and a text; equal texts of more than a few files are one line."""
    groups: dict[str, list[str | None]] = {}
    for path, text in texts:
        groups.setdefault(text, []).append(path)
    lines: list[str] = []
    for text, paths in groups.items():
        files = list(dict.fromkeys(path for path in paths if path is not None))
        if len(files) > FEW:
            lines.append(f"{named(files)}: {printable(text)}")
        else:
            lines += [printable(text if path is None else f"{path}: {text}") for path in dict.fromkeys(paths)]
    return lines


def split_path(text: str, files: Iterable[str]) -> tuple[str | None, str]:
    """Separate a message from the path of one of the files with which it begins."""
    path, sign, rest = text.partition(": ")
    return (path, rest) if sign and path in files else (None, text)


def table_lines(rows: Sequence[Sequence[str]], head: Sequence[str], *, numbers: Sequence[int] = ()) -> list[str]:
    """Return a line for the head and for each row, nothing without rows; ``numbers`` are columns of numbers."""
    if not rows:
        return []
    cells = [[cell.strip() for cell in row] for row in (head, *rows)]
    widths = [max(len(title) + 2, *map(len, column)) for title, *column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        aligned = [
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(aligned).rstrip())
    return lines
