"""``prologue live capture``."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Final

from prologue.cli.arguments import shell_words
from prologue.memory.sources import open_running
from prologue.memory.take import take_capture

SCHEMA: Final = "prologue.live-capture/1"


def run(args: Namespace) -> int:
    """Write a capture of a running kernel."""
    source = open_running(args.source, shell_words("--ssh-options", args.ssh_options))
    done = take_capture(source, args.output)
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
        }
        print(json.dumps(data, indent=2))
    elif not args.quiet:
        modules = "1 module" if done.modules == 1 else f"{done.modules} modules"
        print(f"{args.output}: {info.release}, {modules}, {done.memory:,} bytes of memory in {done.file_size:,}")
        if done.unstable:
            print(f"  {len(done.unstable):,} words of text still changed after several readings (being traced?)")
    return 0
