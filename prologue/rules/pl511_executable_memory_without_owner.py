"""PL511: executable memory of the kernel that nobody owns."""

from __future__ import annotations

from prologue.rules.base import Rule

RULE = Rule(
    code="PL511",
    slug="executable-memory-without-owner",
    severity="error",
    inputs=("C",),
    what="Pages that the kernel's page tables let the kernel execute, and that are neither text of the kernel or of a "
    "listed module, nor a page of kprobes, nor BPF's. The linear map is not looked at.",
    why="Code that runs in the kernel lies in such pages. What allocates one and is not listed hides, or forgot to "
    "free it.",
    example="4,096 executable bytes among the modules, allocated by the module loader, where no listed module is",
    fix="take a dump from outside for evidence; find out what is there and which function allocated it",
    citation='Arm ARM DDI 0487, "VMSAv8-64 translation table format descriptors"; kernel mm/vmalloc.c (6.1-7.3)',
)
