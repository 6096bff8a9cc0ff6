"""PL506: a live write to kernel text that the caches and the other CPUs may never see."""

from __future__ import annotations

from prologue.rules.base import Rule

RULE = Rule(
    code="PL506",
    slug="live-write-without-maintenance",
    severity="error",
    inputs=("W",),
    what="A write to an instruction while another CPU could be executing it, after which the writer returned without "
    "all of: clean the data cache to the point of unification, DSB, invalidate the instruction cache, DSB, ISB; the "
    "first and the third for the line of what was written. Or an instruction that is on no list, and that a CPU "
    "executed for the first time after the write without an ISB or an exception return in between.",
    why="Instruction fetches do not look into the data cache, and instruction caches keep what they have: a CPU may go "
    "on executing the old instruction for any time. CTR_EL0.IDC makes the clean needless, and DIC the invalidation. "
    "What another CPU has fetched already, only that CPU can discard: it must synchronise its own context.",
    example="jump label: NOP became B, followed by DC CVAU and DSB only",
    fix="write text through aarch64_insn_patch_text_nosync(), or call caches_clean_inval_pou() for what was written; "
    "kick_all_cpus_sync() synchronises the other CPUs",
    citation='Arm ARM DDI 0487, "Synchronization and coherency issues between data and instruction accesses" (B2.2.5 '
    "or B2.4.4, numbers move), and CTR_EL0.IDC and DIC",
)
