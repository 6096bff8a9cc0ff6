"""``prologue scan``."""

from __future__ import annotations

import json
from argparse import Namespace

from prologue.elf.identify import identify
from prologue.errors import InputError
from prologue.report.scan import SCHEMA, scan_data, scan_text
from prologue.sites.load import open_binary

# Healthy files that simply are neither vmlinux nor module: naming them is an answer, not an error.
_NAMED = frozenset({"image", "zboot", "pe"})


def run(args: Namespace) -> int:
    """Print what the file is."""
    try:
        with args.file.open("rb") as stream:
            head = stream.read(4096) if args.file.is_file() else b""
            kind = identify(head, args.file.stat().st_size)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=args.file) from error
    if kind.kind in _NAMED:
        data = {"schema": SCHEMA, "file": str(args.file), "kind": kind.kind, "description": kind.description}
        print(json.dumps(data, indent=2) if args.json else f"{args.file}: {kind.description}{kind.advice}")
        return 0
    data = scan_data(open_binary(args.file))
    print(json.dumps(data, indent=2) if args.json else scan_text(data))
    return 0
