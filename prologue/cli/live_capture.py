"""``prologue live capture``."""

from __future__ import annotations

import json
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Final

from prologue.audit.structures import HEADS, find_structures, heads_by_file
from prologue.cli.arguments import shell_words
from prologue.elf.symbols import Symbols
from prologue.memory.kcore import Kcore, RemoteKcore
from prologue.memory.sources import open_kcore
from prologue.memory.take import take_capture
from prologue.outputs import require_other
from prologue.sites.running import find_slide, open_running
from prologue.words import counted

SCHEMA: Final = "prologue.live-capture/1"


def run(args: Namespace) -> int:
    """Write a capture of a running kernel."""
    require_other(args.output, args.vmlinux)
    source = open_kcore(args.source, shell_words("--ssh-options", args.ssh_options))
    heads = _heads(args.vmlinux, source)
    done = take_capture(source, args.output, partial(find_structures, heads=heads))
    info = source.info
    if args.json:
        data = {
            "schema": SCHEMA,
            "source": source.name,
            "output": str(args.output),
            "release": info.release,
            "build_id": info.build_id,
            "slide": None if info.slide is None else hex(info.slide),
            "memory": done.memory,
            "file_size": done.file_size,
            "modules": done.modules,
            "unstable": list(map(hex, done.unstable)),
            "structures": done.whole,
        }
        print(json.dumps(data, indent=2))
    elif not args.quiet:
        modules = counted(done.modules, "module")
        print(f"{args.output}: {info.release}, {modules}, {done.memory:,} bytes of memory in {done.file_size:,}")
        if done.unstable:
            print(
                f"  {counted(len(done.unstable), 'word')} of text still changed after several readings (being traced?)"
            )
        if not done.whole:
            print(f"  missing: {_lacking(heads, named=args.vmlinux is not None)}")
    return 0


def _heads(vmlinux: Path | None, source: Kcore | RemoteKcore) -> dict[str, int]:
    """Where the lists begin that an audit follows: kallsyms has it, or the vmlinux."""
    if vmlinux is None:
        anchors = source.state().anchors()
        return {name: anchors[name] for name in HEADS if name in anchors}
    image = open_running(vmlinux, source)
    symbols = Symbols(image)
    return heads_by_file(symbols, find_slide(symbols, source))


def _lacking(heads: dict[str, int], *, named: bool) -> str:
    what = "ftrace's records and kprobes (an audit decides less without them)"
    if heads or named:
        return f"some of {what}: they changed meanwhile, or this kernel has none"
    return f"{what}: this kernel's kallsyms does not say where they are; --vmlinux VMLINUX does"
