"""Tables in text."""

from __future__ import annotations

from collections.abc import Sequence


def table_lines(rows: Sequence[Sequence[str]], head: Sequence[str], *, numbers: Sequence[int] = ()) -> list[str]:
    """Return a line for the head and for each row, nothing without rows; ``numbers`` are columns of numbers."""
    if not rows:
        return []
    from tabulate import tabulate

    align = ["right" if column in numbers else "left" for column in range(len(head))]
    table = tabulate(rows, head, tablefmt="plain", disable_numparse=True, colalign=align)
    return [line.rstrip() for line in table.splitlines()]
