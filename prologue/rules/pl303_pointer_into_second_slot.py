"""PL303: data or code forms the address of a second slot."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.arrays import among
from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Check every relocated address except the records, and every address that code forms."""
    from prologue.flow.addresses import find_formed
    from prologue.kernel.tables import relative_pointers

    binary, sites, records = subject.binary, subject.sites, subject.binary.records
    if records is None or not len(sites):
        return
    pointers = binary.pointers
    hit = np.flatnonzero(binary.second_slots.contains(pointers.targets))
    in_records = among(pointers.places[hit], records.vaddrs)
    for k in hit[~in_records].tolist():
        where = binary.symbols.locate(int(pointers.targets[k]))
        yield Hit(int(pointers.places[k]), f"will hold the address of {where}, a second slot")
    if binary.relocatable:
        return  # a module's instructions have no addresses yet: its relocations, checked above, hold all
    relative = relative_pointers(binary)
    for k in np.flatnonzero(binary.second_slots.contains(relative.targets)).tolist():
        where = binary.symbols.locate(int(relative.targets[k]))
        yield Hit(int(relative.places[k]), f"holds the distance to {where}, a second slot")
    for vaddr, target in find_formed(binary, binary.second_slots):
        word = int(binary.text.words(np.array([vaddr], np.uint64))[0])
        yield Hit(vaddr, f"forms the address of {binary.symbols.locate(target)}, a second slot", (word,))


RULE = Rule(
    code="PL303",
    slug="pointer-into-second-slot",
    severity="fatal",
    inputs=("V", "K"),
    what="A relocated pointer, other than a record, that holds the address of a second slot; an entry of a table of "
    "32-bit distances (exported symbols, initcalls, tracepoints, static calls) that leads to one; or an ADR, an ADRP "
    "with one or two ADDs, or a load from a literal pool that forms one.",
    why="A call through that pointer skips MOV X9, X30. When the slot is a BL, LR is overwritten and X9 holds an old "
    "value.",
    example="R_AARCH64_RELATIVE in ops table: vfs_read+0x4",
    fix="find the table or the code that takes a function's address plus 4, and make it take the function's address",
    citation='kernel arch/arm64/kernel/entry-ftrace.S "ftrace_caller" (6.12); Arm ARM DDI 0487 "ADRP"',
    check=check,
    finds_insns=True,
    words=(0x90000001, 0x91001021),
)
