"""PL503: a word of running text differs, and no mechanism explains it."""

from __future__ import annotations

from prologue.rules.base import Rule

RULE = Rule(
    code="PL503",
    slug="live-text-unexplained",
    severity="error",
    inputs=("C",),
    what="A word of running text that differs from the vmlinux (or the module) and that no mechanism of the kernel "
    "owns. Words that follow each other are one finding, and so are pages of zeros that follow each other, whichever "
    "mechanism owns their words.",
    why="The kernel changes its text in a known number of ways, each with a table that says where. A word in no "
    "table was changed by something else: an intruder, a tool, a hardware error, or a mechanism that this "
    "version of prologue does not know. A page of zeros was wiped, or could not be read.",
    example="vfs_read+0x40 holds B to an address outside of the kernel; the vmlinux has LDR there",
    fix="find out who wrote there; if a part of the kernel did, report it as a gap of prologue with the kernel release",
    citation='docs/live.md, "What an audit knows"',
    words=(0x14000400,),
)
