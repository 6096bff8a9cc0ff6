"""The commands that trace brings."""

from __future__ import annotations

from typing import Final

from prologue.cli.subcommands import Command

COMMANDS: Final = (
    Command(
        "trace", "", "read, check and record what a kernel really executed",
        "  prologue trace record vmlinux -o read.ptrace --begin vfs_read --count 10000000     # in QEMU\n"
        "  prologue trace disasm perf.data --vmlinux vmlinux\n",
        options="prologue.trace.cli.trace:add_trace",
    ),
)  # fmt: skip
