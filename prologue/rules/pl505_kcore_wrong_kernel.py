"""PL505: the memory is not that of the vmlinux that it is compared with."""

from __future__ import annotations

from prologue.rules.base import Rule

RULE = Rule(
    code="PL505",
    slug="kcore-wrong-kernel",
    severity="fatal",
    inputs=("C",),
    what="Memory whose kernel has another build-id than the vmlinux, or whose text is not where the slide of KASLR "
    "says. Nothing else is judged then, and the exit code is 2.",
    why="Compared with another build, or at another slide, every word is wrong or, worse, right by accident.",
    example="a vmcore of yesterday's kernel and the vmlinux of today's build",
    fix="take the vmlinux of the very build that runs (Debian: the package linux-image-...-dbg of that version)",
    citation='kernel kernel/vmcore_info.c "BUILD-ID", "KERNELOFFSET" (6.12); kernel/crash_core.c (6.1)',
)
