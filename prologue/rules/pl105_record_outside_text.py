"""PL105: a record does not point into text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Report non-zero records whose address is unaligned or not in executable, allocated, file-backed sections."""
    records = subject.binary.records
    if records is None:
        return
    vaddrs = records.vaddrs
    for k in np.flatnonzero(records.nonzero & ~subject.binary.text.in_text(records.values)).tolist():
        value = int(records.values[k])
        if subject.binary.relocatable and not records.rela[k]:
            value = int(records.slots[k])
            yield Hit(int(vaddrs[k]), f"no relocation: the record stays {value:#x}, which is not text", (value,))
            continue
        place = f"{value:#x}"
        words: tuple[int, ...] = (value,)
        if subject.binary.relocatable:  # the address is ours: the module has none yet
            where = subject.binary.symbols.locate(value)
            place, words = str(where) if where.section else "outside of every section", ()
        yield Hit(int(vaddrs[k]), f"record points at {place}, which is not text", words)


RULE = Rule(
    code="PL105",
    slug="record-outside-text",
    severity="error",
    inputs=("V", "K"),
    what="A non-zero record that points anywhere but at an instruction of the file.",
    why="Kernels before 6.15 hand every non-zero record to ftrace, which then finds no NOP there and disables "
    "itself with `ftrace bug`; later ones drop it silently and a function cannot be traced.",
    example="record 0xffff800009810000 (.data)",
    fix="link again; a record like this usually comes from a discarded section",
    citation='kernel kernel/trace/ftrace.c "ftrace_process_locs" (6.1, 6.12)',
    check=check,
)
