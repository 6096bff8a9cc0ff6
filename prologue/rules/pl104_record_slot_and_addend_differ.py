"""PL104: a slot and its RELA addend hold different addresses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Report slots that are neither zero nor their addend; in a processed file a slot may keep the old value."""
    records, sites = subject.kernel.records, subject.sites
    if records is None or records.form != "addresses":
        return  # a plain table's slots keep the order as linked: PL115
    allowed = records.values.copy()
    # prologue moves a RELA record by its addend only: the slot keeps the unmoved value.
    allowed[sites.record[sites.moved]] = sites.unmoved_values()[sites.moved]
    differ = records.rela & (records.slots != 0) & (records.slots != records.values) & (records.slots != allowed)
    vaddrs = records.vaddrs
    for k in np.flatnonzero(differ).tolist():
        slot, addend = int(records.slots[k]), int(records.values[k])
        yield Hit(int(vaddrs[k]), f"slot holds {slot:#x}, addend {addend:#x}; the addend wins", (slot,), (addend,))


RULE = Rule(
    code="PL104",
    slug="record-slot-and-addend-differ",
    severity="warn",
    inputs=("V",),
    what="A RELA-relocated record whose slot is neither zero nor the addend.",
    why="The addend wins when the kernel relocates itself, so it boots. But a tool that reads the slot sees another "
    "function, and some step edited one of the two without the other.",
    example="slot ffff800008010420, addend ffff800008010428",
    fix="find what edited the file after the link; the addend is what the kernel uses",
    citation='System V gABI "Relocation" (r_addend)',
    check=check,
)
