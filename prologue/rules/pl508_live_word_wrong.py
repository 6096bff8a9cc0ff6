"""PL508: a word is not what the mechanism that owns it put there."""

from __future__ import annotations

from prologue.rules.base import Rule

RULE = Rule(
    code="PL508",
    slug="live-word-wrong",
    severity="error",
    inputs=("C",),
    what="A word of running text that a mechanism owns, but that is not what the mechanism may have put there: a "
    "jump label against its key, a part of an alternative, a literal that points nowhere, a constant that is "
    "not its variable.",
    why="A variable in memory decides this word, and the word contradicts it: a decision of the kernel is inverted, "
    "or other code runs. An intruder who knows the tables hides there.",
    example="the jump label at may_open+0x30 branches although its key is not enabled:",
    fix="find out who wrote there; take a dump for evidence",
    citation='docs/live.md, "What an audit knows"; kernel arch/arm64/kernel/{alternative,jump_label,ftrace}.c '
    "(6.1-7.2)",
    words=(0x14000008,),
)
