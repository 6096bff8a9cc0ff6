"""PL513: a live write, off the list, to an instruction that no CPU had executed."""

from __future__ import annotations

from prologue.insn.cmodx import CITATION
from prologue.rules.base import Rule

RULE = Rule(
    code="PL513",
    slug="live-write-before-execution",
    severity="warn",
    inputs=("W",),
    what="A live write to an instruction that no CPU had executed since its page became text, nor executed before the "
    "writer returned, if one of the two words is on no issue's list. If a CPU had executed it, it is PL308. Runtime "
    "constants, which are made to be written before their first use, are info.",
    why="The architecture permits such a change if no CPU executes the instruction meanwhile, the writer does the "
    "maintenance (PL506), and each CPU synchronises its context before it executes the new one. One recording shows "
    "that this was so once. Whether it is always so depends on what keeps other CPUs away until then.",
    example="futex_init() of 7.3 sets the mask of __futex_hash() while other CPUs run: UBFX W0, W19, #0, #32 became "
    "UBFX W0, W19, #0, #9",
    fix="make sure that the code cannot be reached before; better, write it while one CPU runs or in stop_machine",
    citation=f"{CITATION}; kernel arch/arm64/include/asm/runtime-const.h, kernel/futex/core.c (7.3)",
)
