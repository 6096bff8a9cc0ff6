"""PL509: a listener calls code that nobody owns."""

from __future__ import annotations

from prologue.rules.base import Rule

RULE = Rule(
    code="PL509",
    slug="hook-without-owner",
    severity="fatal",
    inputs=("C",),
    what="A callback of an ftrace_ops, a direct call, a probe of a kprobe, tracepoint or fprobe, a BPF program's code "
    "or the replacement of a livepatch that is neither in the kernel's text nor in the text of a listed module, nor "
    "in what BPF and kprobes have in kallsyms, or is in the middle of a function; a BPF program that is "
    "attached, and not among the loaded ones.",
    why="The kernel calls it, and nothing that the kernel lists has code there: a module that hides, memory that was "
    "freed, or code that somebody put there. Every word of text may be right all the same.",
    example="ftrace_ops on vfs_read: its callback is in a module that mod_tree has, and that the list of modules lacks",
    fix="take a dump from outside for evidence; find out what is at the address, and boot from a known image",
    citation="kernel kernel/trace/ftrace.c, kernel/kprobes.c, kernel/module/main.c, kernel/bpf/core.c (6.1-7.3)",
)
