"""``prologue trace record``."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prologue.cli.arguments import shell_words
from prologue.errors import OutputError, UsageError
from prologue.kernel.kernel import Kernel
from prologue.kernel.load import open_binary
from prologue.kernel.module import Module
from prologue.outputs import require_distinct, require_other
from prologue.words import counted
from prologue_bench.guest.vm import Machine
from prologue_bench.trace.guest import pack_guest
from prologue_bench.trace.record import Guest, RecordedTrace, RecordingFiles, Window, record

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA: Final = "prologue.trace-record/1"
_ENDS: Final = {
    "count": "--count was reached",
    "end": "the command, or --until",
    "machine": "the machine powered off",
}


def run(args: Namespace) -> int:
    """Record.

    Returns:
        0.

    """
    _require_modules(args.insmod, boot=args.boot)
    _require_outputs((args.vmlinux, *args.insmod), args.output, args.truth, args.writes, args.dump, args.console)
    files = RecordingFiles(out=args.output, truth=args.truth, writes=args.writes, dump=args.dump, log=args.console)
    window = Window(
        marks=not args.boot,
        begin=args.begin,
        until=args.until,
        count=args.count,
        function=args.function,
        process=args.process,
    )
    machine = Machine(cpu=args.cpu, cpus=args.cpus, memory=args.memory, virtualization=args.virtualization)
    archive = None if args.boot else pack_guest(_words(args.run), args.setup, modules=args.insmod)
    guest = Guest(initramfs=archive, machine=machine, append=args.append, timeout=args.timeout)
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
    words = shell_words("--run", text)
    if not words:
        raise UsageError("--run: no command; --boot records a kernel without one")
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
    each = ", ".join(f"CPU {cpu.cpu} {cpu.instructions:,}" for cpu in recorded.cpus)
    slide = "no slide seen" if recorded.slide is None else f"slide {recorded.slide:#x}"
    instructions, ranges = counted(recorded.instructions, "instruction"), counted(recorded.ranges, "range")
    return f"{out}: {instructions} in {ranges} ({each}), {slide}; the window ended: {_ENDS[recorded.why]}"
