"""PL504: a word of running text does not come to rest."""

from __future__ import annotations

from prologue.rules.base import Rule

RULE = Rule(
    code="PL504",
    slug="live-unstable",
    severity="warn",
    inputs=("C",),
    what="A word of running text that still changed after it had been read several times.",
    why="Nothing can be said of such a word: it may be half of a change. Switching tracers on and off does this, "
    "and is harmless.",
    example="second slot of schedule alternates between NOP and BL while a tracer is started and stopped",
    fix="audit again while no tracers or probes are switched, or take a dump of the stopped machine",
    citation='docs/live.md, "What can go wrong"',
)
