"""``prologue live capture``."""

from __future__ import annotations

import json
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Final

from prologue.cli.arguments import shell_words
from prologue.kernel.kernel import Kernel
from prologue.live.audit.structures import ListStarts, find_structures, starts_by_file, starts_by_kernel
from prologue.live.hooks.follow import follow_hooks
from prologue.live.memory.kcore import Kcore, RemoteKcore
from prologue.live.memory.sources import open_kcore
from prologue.live.memory.take import take_capture
from prologue.live.system.running_kernel import find_slide, open_running
from prologue.outputs import require_other
from prologue.words import counted

SCHEMA: Final = "prologue.live-capture/1"


def run(args: Namespace) -> int:
    """Write a capture of a running kernel."""
    require_other(args.output, args.vmlinux)
    source = open_kcore(args.source, shell_words("--ssh-options", args.ssh_options), args.timeout)
    starts = _starts(args.vmlinux, source)
    follow = follow_hooks(args.vmlinux, source) if args.vmlinux else None
    done = take_capture(source, args.output, partial(find_structures, starts=starts), follow)
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
            "hooks": follow is not None,
            "struct_offsets": starts.layouts.source,
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
            print(f"  missing: {_lacking(starts, named=args.vmlinux is not None)}")
        if follow is None:
            print("  missing: lists of what is attached (live hooks); --vmlinux VMLINUX says where they begin")
    return 0


def _starts(vmlinux: Path | None, source: Kcore | RemoteKcore) -> ListStarts:
    """Find where the lists begin that an audit follows: kallsyms has it, or the vmlinux."""
    if vmlinux is None:
        return starts_by_kernel(source)
    kernel = Kernel(open_running(vmlinux, source))
    return starts_by_file(kernel, find_slide(kernel.symbols, source))


def _lacking(starts: ListStarts, *, named: bool) -> str:
    what = "ftrace's records and kprobes (an audit decides less without them)"
    if starts.layouts.types is None and not starts.layouts.table:
        return f"{what}: struct offsets are {starts.layouts.source}"
    if starts.heads or named:
        return f"some of {what}: they changed meanwhile, or this kernel has none"
    return f"{what}: this kernel's kallsyms does not say where they are; --vmlinux VMLINUX does"
