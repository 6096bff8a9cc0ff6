"""``prologue scan``."""

from __future__ import annotations

import json
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any

import prologue
from prologue.cli.arguments import add_jobs
from prologue.cli.subcommands import Subcommand
from prologue.elf.identify import BOOT_FILES
from prologue.errors import PrologueError
from prologue.gate.kernel import kernels_among
from prologue.kernel.load import boot_file, kernel_of, named_files
from prologue.report.scan import SCHEMA, scan_data, scan_text


def add_options(command: Subcommand) -> None:
    """Give ``scan`` its options."""
    command.add_argument("files", type=Path, nargs="+", metavar="FILE",
                         help="vmlinux or module, compressed or not, boot file, or a directory of modules")  # fmt: skip
    add_jobs(command)
    command.add_argument("--json", action="store_true", help="print JSON (schema prologue.scan/1)")


def run(args: Namespace) -> int:
    """Print what each file is; the exit code is the worst one."""
    paths = named_files(args.files)
    if len(paths) == 1:
        data = _scan(paths[0])
        print(json.dumps(data, indent=2) if args.json else _text(data))
        return 0
    return _scan_many(paths, args)


def _scan_many(paths: list[Path], args: Namespace) -> int:
    from prologue.cli.parallel import print_errors, run_many

    results: list[dict[str, Any]] = []
    errors: list[PrologueError] = []
    work = partial(_scan_or_error, kernels=kernels_among(None, paths))
    for outcome in run_many(work, paths, "scan", args.jobs):
        if isinstance(outcome, PrologueError):
            errors.append(outcome)
        else:
            results.append(outcome)
            if not args.json:
                print(_text(outcome), end="\n\n")
    print_errors([(error.message, str(error)) for error in errors])
    if args.json:
        print(json.dumps({"schema": SCHEMA, "files": results, "failed": len(errors)}, indent=2))
    else:
        print(f"{len(results):,} of {len(paths):,} files" + (", the others FAILED (see above)" if errors else ""))
    return max((error.exit_code for error in errors), default=0)


def _scan_or_error(path: Path, *, kernels: tuple[Path, ...]) -> dict[str, Any] | PrologueError:
    try:
        return _scan(path, kernels)
    except PrologueError as error:
        return error


def _scan(path: Path, kernels: tuple[Path, ...] = ()) -> dict[str, Any]:
    if kind := boot_file(path):
        return {"schema": SCHEMA, "file": str(path), "kind": kind.kind, "description": kind.description}
    binary = prologue.open(path)
    return scan_data(binary, kernel_of(binary, kernels) if isinstance(binary, prologue.Module) else None)


def _text(data: dict[str, Any]) -> str:
    if data["kind"] in BOOT_FILES:
        return f"{data['file']}: {data['description']}: give the vmlinux that it was made from"
    return scan_text(data)
