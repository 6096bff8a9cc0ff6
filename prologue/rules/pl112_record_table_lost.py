"""PL112: functions begin with pairs, and the table that lists them was lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prologue.insn import a64
from prologue.kernel.binary import Binary
from prologue.kernel.kernel import Kernel
from prologue.rules.base import Hit, Rule, Subject
from prologue.words import counted


def check(subject: Subject) -> Iterator[Hit]:
    """Report far more pairs at function entries than records, be it in the file or in one of its sections."""
    from prologue.kernel.unlisted import lost_table

    binary = subject.binary
    if isinstance(binary, Kernel) and binary.unknown_records:
        return  # PL101, PL102, PL202: what the table holds is not known
    lost = lost_table(binary)
    if lost is None:
        return
    word = int(binary.text.words(lost.unlisted[:1])[0])
    pair = "MOV X9, X30; NOP" if word == a64.MOV_X9_X30 else "NOP; NOP"
    table = _table(binary)
    if table:
        seen = f"{len(lost.unlisted):,} of {counted(lost.entries, 'function')} looked at begin with {pair}, but {table}"
    else:
        where = ", ".join(f"{count:,} in {name}" for name, count in list(lost.sections.items())[:_SHOWN])
        more = f", and more in {len(lost.sections) - _SHOWN:,} other sections" if len(lost.sections) > _SHOWN else ""
        seen = (
            f"{len(lost.unlisted):,} of the {lost.pairs:,} pairs at function entries have no record ({where}{more}): "
            "a part of the table was lost"
        )
    yield Hit(int(lost.unlisted[0]), f"{seen}; ftrace cannot trace these functions", (word, a64.NOP))


_SHOWN: Final = 4  # sections by name


def _table(binary: Binary) -> str:
    """Say what became of a table that lists nothing; empty if it lists something."""
    records = binary.records
    if records is None:
        name = "__start_mcount_loc" if isinstance(binary, Kernel) else "__patchable_function_entries"
        return f"there is no {name}"
    if not len(records):
        return "the record table is empty"
    return "" if records.nonzero.any() else f"all {len(records):,} records are zero"


RULE = Rule(
    code="PL112",
    slug="record-table-lost",
    severity="error",
    inputs=("V", "K"),
    finds_insns=True,
    what="Function entries with NOP; NOP or MOV X9, X30; NOP and no record table, an empty one, or one that lacks the "
    "records of a section or of one pair in twenty. A file that was built without dynamic ftrace has no such pairs.",
    why="ftrace knows the functions of the table only. Without it they cannot be traced, no rule can judge their "
    "sites, and `patch` has nothing to process: the file is not a kernel or module without ftrace.",
    example="41,953 functions begin with d503201f d503201f, and __start_mcount_loc == __stop_mcount_loc",
    fix="find out what dropped __patchable_function_entries (a linker script with /DISCARD/, objcopy -R, a section "
    "that MCOUNT_REC does not collect), and link again",
    citation='kernel include/asm-generic/vmlinux.lds.h "MCOUNT_REC", kernel/module/main.c (6.12)',
    check=check,
    words=(0xD503201F, 0xD503201F),
)
