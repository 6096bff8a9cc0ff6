"""``prologue trace record``: its part of the grammar. QEMU is the bench's, and so is the handler."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import Final

from prologue.cli.arguments import number_from
from prologue.cli.bench import require_bench
from prologue.cli.bench_defaults import CPU, CPUS, TIMEOUT

HELP: Final = "record in QEMU which instructions a kernel executes: each range, with CPU, level and task"
EXAMPLES: Final = (
    "  prologue trace record vmlinux -o hackbench.ptrace --run 'hackbench -g 1 -l 100'\n"
    "  prologue trace record vmlinux -o read.ptrace --begin vfs_read --count 10000000\n"
    "  prologue trace record vmlinux -o read.ptrace --function vfs_read --run 'head -c 64 /dev/zero'\n"
    "  prologue trace record vmlinux -o all.ptrace --truth all.words --dump all.core \\\n"
    "      --setup 'echo function >/sys/kernel/tracing/current_tracer'\n"
    "  prologue live overlay vmlinux all.core -o vmlinux.live     # the text that was executed\n"
)


def add_options(added: argparse.ArgumentParser) -> None:
    """All options."""
    added.add_argument("vmlinux", type=Path, metavar="VMLINUX", help="boots on QEMU's virt board; unstripped")
    added.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the recording; may be a pipe")
    _add_window(added)
    more = added.add_argument_group("other files")
    more.add_argument("--truth", type=Path, metavar="FILE",
                      help="each executed address and word, 16 bytes each: slow, and large")  # fmt: skip
    more.add_argument("--writes", type=Path, metavar="FILE",
                      help="each write to text from reset on, for --writes of disasm and check: slow")  # fmt: skip
    more.add_argument("--dump", type=Path, metavar="FILE",
                      help="the machine's memory when the window ends, for live overlay")  # fmt: skip
    more.add_argument("--console", type=Path, metavar="FILE", help="the guest's console output")
    guest = added.add_argument_group("the guest")
    guest.add_argument("--run", default="hackbench -g 1 -l 100", metavar="COMMAND",
                       help="busybox, hackbench or a program of busybox (default: %(default)s)")  # fmt: skip
    guest.add_argument("--setup", default="", metavar="SCRIPT", help="shell commands to run first")
    guest.add_argument("--insmod", type=Path, action="append", default=[], metavar="MODULE",
                       help="a module to load before --setup; repeatable, dependencies first")  # fmt: skip
    guest.add_argument("--boot", action="store_true",
                       help="no root file system and no command: record from reset on")  # fmt: skip
    guest.add_argument("--append", default="", metavar="WORDS", help="for the kernel's command line")
    guest.add_argument("--cpu", default=CPU, metavar="MODEL", help="of QEMU (default: %(default)s)")
    guest.add_argument("--cpus", type=number_from(1), default=CPUS, metavar="N", help="how many (default: %(default)s)")
    guest.add_argument("--memory", type=number_from(32), default=512, metavar="MIB", help="RAM (default: %(default)s)")
    guest.add_argument("--virtualization", action="store_true", help="start the kernel at EL2")
    guest.add_argument(
        "--timeout", type=number_from(1), default=TIMEOUT, metavar="SECONDS", help="of wall time (default: %(default)s)"
    )
    say = added.add_mutually_exclusive_group()
    say.add_argument("--json", action="store_true", help="print JSON (schema prologue.trace-record/1)")
    say.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")


def _add_window(added: argparse.ArgumentParser) -> None:
    window = added.add_argument_group("the window", "Without these, from the command's begin to its end, on all CPUs.")
    window.add_argument("--begin", metavar="FUNCTION", help="begin when it is entered")
    window.add_argument("--until", metavar="FUNCTION", help="end when it is entered")
    window.add_argument("--count", type=number_from(1), metavar="N",
                        help="end after so many instructions of all CPUs")  # fmt: skip
    only = window.add_mutually_exclusive_group()
    only.add_argument("--function", metavar="FUNCTION", help="only its calls, and what runs until they return")
    only.add_argument("--process", action="store_true", help="only the command's own task, not its children")


def run(args: argparse.Namespace) -> int:
    """Call the handler.

    Raises:
        UsageError: the bench, or a library that only it needs, is not installed.

    """
    with require_bench():
        return int(import_module("prologue_bench.cli.trace_record").run(args))
