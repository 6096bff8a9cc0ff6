"""``prologue scan``."""

from __future__ import annotations

import json
import os
from argparse import Namespace

from prologue.elf.files import open_regular
from prologue.elf.identify import identify
from prologue.report.scan import SCHEMA, scan_data, scan_text
from prologue.sites.load import open_binary

# Healthy files that simply are neither vmlinux nor module: naming them is an answer, not an error.
_NAMED = frozenset({"image", "zboot", "pe"})


def run(args: Namespace) -> int:
    """Print what the file is."""
    with open_regular(args.file) as (fd, size):
        kind = identify(os.pread(fd, 4096, 0), size)
    if kind.kind in _NAMED:
        data = {"schema": SCHEMA, "file": str(args.file), "kind": kind.kind, "description": kind.description}
        print(json.dumps(data, indent=2) if args.json else f"{args.file}: {kind.description}{kind.advice}")
        return 0
    data = scan_data(open_binary(args.file))
    print(json.dumps(data, indent=2) if args.json else scan_text(data))
    return 0
