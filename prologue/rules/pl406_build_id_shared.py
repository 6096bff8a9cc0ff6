"""PL406: two different texts share one build-id."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.elf.image import differing_bytes
from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Report a pair of files with one build-id: one hit, at the first text section that differs."""
    after, before = subject.binary, subject.before
    if before is None or not after.build_id or after.build_id != before.build_id:
        return
    theirs = iter(before.text.text_sections)  # in the same order: several may have one name
    for section in after.text.text_sections:
        other = next(theirs, None)
        if (
            other is None
            or other.size != section.size
            or len(differing_bytes(before.image.view(other, np.uint8), after.image.view(section, np.uint8)))
        ):
            message = f"{section.name} differs from {before.path}, but both have build-id {after.build_id}"
            yield Hit(section.addr, message)
            return


RULE = Rule(
    code="PL406",
    slug="build-id-shared",
    severity="info",
    inputs=("P",),
    what="Before and after have different text and the same build-id.",
    why="Debuggers, profilers and symbol servers take one build-id for one text: they may show the unprocessed words. "
    "Processing keeps the build-id on purpose, since debug information stays right.",
    example=".text differs, build-id 3f2a... in both",
    fix="nothing to do if tools that disassemble by build-id get the file that runs",
    citation='System V gABI "Note Section"; GNU ld "--build-id"',
    check=check,
)
