"""Tables in text."""

from __future__ import annotations

from collections.abc import Sequence


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
