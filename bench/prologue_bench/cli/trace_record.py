"""``prologue trace record``."""

from __future__ import annotations

import argparse
import json
import os
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prologue.cli.arguments import number_from, shell_words
from prologue.errors import OutputError, UsageError
from prologue.kernel.kernel import Kernel
from prologue.kernel.load import open_binary
from prologue.kernel.module import Module
from prologue.outputs import require_distinct, require_other
from prologue.report.terminal import working
from prologue.words import counted
from prologue_bench.cli.common import add_machine, machine_of
from prologue_bench.trace.guest import pack_guest
from prologue_bench.trace.record import Guest, RecordedTrace, RecordingFiles, Window, record

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA: Final = "prologue.trace-record/1"
_ENDS: Final = {
    "calls": "256 tasks were in --function at once, and no more can be followed",
    "count": "--count was reached",
    "end": "the command, or --until",
    "machine": "the machine powered off",
}


def add_options(added: argparse.ArgumentParser) -> None:
    """Add all options."""
    added.add_argument("vmlinux", type=Path, metavar="VMLINUX", help="boots on QEMU's virt board; unstripped")
    added.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="the recording; may be a pipe")
    _add_window(added)
    more = added.add_argument_group("other files")
    more.add_argument("--save-truth", type=Path, metavar="FILE",
                      help="each executed address and word, 16 bytes each: slow, and large")  # fmt: skip
    more.add_argument("--save-writes", type=Path, metavar="FILE",
                      help="each write to text from reset on, for --writes: slow")  # fmt: skip
    more.add_argument("--save-memory", type=Path, metavar="FILE",
                      help="the machine's memory when the window ends, for --memory")  # fmt: skip
    more.add_argument("--save-console", type=Path, metavar="FILE", help="the guest's console output")
    guest = added.add_argument_group("the guest")
    guest.add_argument("--command", default="hackbench -g 1 -l 100", metavar="COMMAND",
                       help="busybox, hackbench or a program of busybox (default: %(default)s)")  # fmt: skip
    guest.add_argument("--setup", default="", metavar="SCRIPT", help="shell commands to run first")
    guest.add_argument("--insmod", type=Path, action="append", default=[], metavar="MODULE",
                       help="a module to load before --setup; repeatable, dependencies first")  # fmt: skip
    guest.add_argument("--boot", action="store_true",
                       help="no root file system and no command: record from reset on")  # fmt: skip
    add_machine(guest, least_ram=32, ram=512)
    guest.add_argument("--virtualization", action="store_true", help="start the kernel at EL2")
    added.add_argument("--json", action="store_true", help="print JSON (schema prologue.trace-record/1)")


def _add_window(added: argparse.ArgumentParser) -> None:
    window = added.add_argument_group("the window", "Without these, from the command's begin to its end, on all CPUs.")
    window.add_argument("--begin", metavar="FUNCTION", help="begin when it is entered")
    window.add_argument("--until", metavar="FUNCTION", help="end when it is entered")
    window.add_argument("--count", type=number_from(1), metavar="N",
                        help="end after so many instructions of all CPUs")  # fmt: skip
    only = window.add_mutually_exclusive_group()
    only.add_argument("--function", metavar="FUNCTION", help="only its calls, and what runs until they return")
    only.add_argument("--process", action="store_true", help="only the command's own task, not its children")


def run(args: Namespace) -> int:
    """Record.

    Returns:
        0.

    """
    if args.boot and args.process:
        raise UsageError("--process: --boot runs no command")
    _require_modules(args.insmod, boot=args.boot)
    more = (args.save_truth, args.save_writes, args.save_memory, args.save_console)
    _require_outputs((args.vmlinux, *args.insmod), args.output, *more)
    files = RecordingFiles(
        out=args.output, truth=args.save_truth, writes=args.save_writes, dump=args.save_memory, log=args.save_console
    )
    window = Window(
        marks=not args.boot,
        begin=args.begin,
        until=args.until,
        count=args.count,
        function=args.function,
        process=args.process,
    )
    machine = replace(machine_of(args), virtualization=args.virtualization)
    archive = None if args.boot else pack_guest(_words(args.command), args.setup, modules=args.insmod)
    guest = Guest(initramfs=archive, machine=machine, append=args.append, timeout=args.timeout)
    with working(f"recording {args.vmlinux.name} in QEMU"):
        recorded = record(Kernel(args.vmlinux), window, files, guest)
    if args.json:
        print(json.dumps({"schema": SCHEMA, "output": str(args.output), **_data(recorded)}, indent=2))
    elif not args.quiet:
        print(_text(args.output, recorded))
    return 0


def _require_modules(modules: Sequence[Path], *, boot: bool) -> None:
    if boot and modules:
        raise UsageError("--insmod: --boot has no root file system to load a module from")
    for path in modules:
        if not isinstance(open_binary(path), Module):
            raise UsageError(f"--insmod {path}: is not a module")


def _words(text: str) -> list[str]:
    words = shell_words("--command", text)
    if not words:
        raise UsageError("--command: no command; --boot records a kernel without one")
    return words


def _require_outputs(inputs: Sequence[Path], *paths: Path | None) -> None:
    """Refuse now what could not be written, or would destroy something, when the guest has booted."""
    outputs = [path for path in paths if path is not None]
    require_distinct(*outputs)
    for path in outputs:
        require_other(path, *inputs)
        if path.is_dir():
            raise OutputError("is a directory", path=path)
        if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
            raise OutputError("cannot be written: no such directory, or no permission", path=path)


def _data(recorded: RecordedTrace) -> dict[str, Any]:
    return {
        "instructions": recorded.instructions,
        "ranges": recorded.ranges,
        "slide": None if recorded.slide is None else hex(recorded.slide),
        "ended_by": recorded.why,
        "cpus": [{"cpu": c.cpu, "instructions": c.instructions, "ranges": c.ranges} for c in recorded.cpus],
    }


def _text(out: Path, recorded: RecordedTrace) -> str:
    counts = ", ".join(f"CPU {cpu.cpu} {cpu.instructions:,}" for cpu in recorded.cpus)
    slide = "no slide seen" if recorded.slide is None else f"slide {recorded.slide:#x}"
    instructions, ranges = counted(recorded.instructions, "instruction"), counted(recorded.ranges, "range")
    return f"{out}: {instructions} in {ranges} ({counts}), {slide}; the window ended: {_ENDS[recorded.why]}"
