"""Regular expressions that every supported Python understands alike."""

from __future__ import annotations

import re
from pathlib import Path

import prologue
import prologue_bench

# Python before 3.11.5, as Debian 12 has it, goes on at the wrong place where an attempt at one of these failed.
_OF_GROUPS = re.compile(r"\)(?:[*+?]|\{[\d,]+\})\+|\(\?>")


def test_no_group_is_atomic_or_repeated_possessively() -> None:
    roots = [Path(package.__file__).parent for package in (prologue, prologue_bench) if package.__file__]
    lines = [
        f"{path}:{number}"
        for root in roots
        for path in sorted(root.rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if _OF_GROUPS.search(line)
    ]
    assert len(roots) == 2
    assert lines == []
