"""The most entered functions of a workload: the file that an exact boot leaves, and a table of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from prologue.words import counted
from prologue_bench.errors import BenchError
from prologue_bench.results.fields import parse, read_file

SCHEMA: Final = "prologue.bench-entered/1"
SUFFIX: Final = ".entered.json"
_TOP: Final = 12
_NAME_WIDTH: Final = 40

Entered = tuple[tuple[str, int], ...]  # functions and how often each was entered, most often first


def write_entered(path: Path, workloads: Mapping[str, Entered]) -> None:
    """Write every function that a boot's workloads entered, by workload."""
    data = {"schema": SCHEMA, "workloads": {name: [list(row) for row in rows] for name, rows in workloads.items()}}
    path.write_text(json.dumps(data) + "\n", encoding="utf-8")


def read_entered(path: Path) -> dict[str, Entered]:
    """Read what ``write_entered`` wrote.

    Raises:
        BenchError: no such file, or another one.

    """
    fields = parse(read_file(path), str(path))
    fields.schema(SCHEMA)
    try:
        workloads = fields.data["workloads"].items()
        return {str(name): tuple((str(f), int(n)) for f, n in rows) for name, rows in workloads}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BenchError(f"{path}: workloads: expected pairs of a function and a count for each") from error


def entered_table(entered: Entered, top: int = _TOP) -> str:
    """Print the functions entered most often and their share of all entries: plain text, 75 columns at most."""
    from tabulate import tabulate

    total = sum(count for _, count in entered)
    rows = [(_short(name), f"{count:,}", f"{count / total:.1%}") for name, count in entered[:top]]
    if rest := entered[top:]:
        count = sum(count for _, count in rest)
        rows.append((counted(len(rest), "other"), f"{count:,}", f"{count / total:.1%}"))
    body = tabulate(
        rows, ("function", "entries", "share"), tablefmt="simple", disable_numparse=True,
        colalign=("left", "right", "right"),
    )  # fmt: skip
    return "\n".join(line.rstrip() for line in body.splitlines())


def _short(name: str) -> str:
    name = name.encode("ascii", "backslashreplace").decode()
    return name if len(name) <= _NAME_WIDTH else f"{name[: _NAME_WIDTH - 3]}..."
