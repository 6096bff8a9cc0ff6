"""``prologue scan``."""

from __future__ import annotations

import json
from argparse import Namespace
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import prologue
from prologue.cli.arguments import OrExample, add_jobs, add_json, example_files
from prologue.cli.subcommands import Subcommand
from prologue.elf.identify import BOOT_FILES
from prologue.errors import InputError, PrologueError
from prologue.kernel.load import boot_file, kernel_of, kernels_among, named_files
from prologue.report.scan import SCHEMA, scan_data, scan_text
from prologue.words import counted, printable


def add_options(command: Subcommand) -> None:
    """Give ``scan`` its options."""
    command.add_argument("files", action=OrExample, type=Path, nargs="+", metavar="FILE",
                         help="vmlinux or module, compressed or not, boot file, a directory of modules, "
                              "or example:NAME")  # fmt: skip
    add_jobs(command)
    add_json(command, "scan")


def run(args: Namespace) -> int:
    """Print what each file is; the exit code is the worst one, 2 for a boot file: it says nothing of its sites."""
    paths = named_files(example_files(args.files))
    if len(paths) == 1 and not args.json:
        data = _scan(paths[0])
        if data["kind"] in BOOT_FILES:
            advice = "scan the vmlinux that it was made from, and `prologue verify VMLINUX --image` compares the two"
            raise InputError(f"{data['description']}, which names no sites: {advice}", path=data["file"])
        print(scan_text(data))
        return 0
    return _scan_many(paths, args)


def _scan_many(paths: list[Path], args: Namespace) -> int:
    """Print a line for each file and a summary, or everything as JSON."""
    from prologue.cli.parallel import print_errors, run_many

    files: list[dict[str, Any]] = []
    errors: list[PrologueError] = []
    work = partial(_scan_or_error, kernels=kernels_among(None, paths))
    for outcome in run_many(work, paths, "scan", args.jobs):
        if isinstance(outcome, PrologueError):
            errors.append(outcome)
        else:
            files.append(outcome)
            if not args.json:
                print(_line(outcome))
    print_errors([(error.message, str(error)) for error in errors])
    if args.json:
        print(json.dumps({"schema": SCHEMA, "files": files, "failed": len(errors)}, indent=2))
    else:
        print(_summary(files, len(errors)))
    codes = [InputError.exit_code for data in files if data["kind"] in BOOT_FILES]
    return max((*codes, *(error.exit_code for error in errors)), default=0)


def _scan_or_error(path: Path, *, kernels: tuple[Path, ...]) -> dict[str, Any] | PrologueError:
    try:
        return _scan(path, kernels)
    except PrologueError as error:
        return error


def _scan(path: Path, kernels: tuple[Path, ...] = ()) -> dict[str, Any]:
    if kind := boot_file(path):
        return {"file": str(path), "kind": kind.kind, "description": kind.description}
    binary = prologue.open(path)
    return scan_data(binary, kernel_of(binary, kernels) if isinstance(binary, prologue.Module) else None)


def _line(data: dict[str, Any]) -> str:
    """Say in a line what a file is, and what is wrong with it."""
    if data["kind"] in BOOT_FILES:
        return printable(f"{data['file']}: {data['description']}")
    parts = [data["kind"], data["release"] or "release unknown", _state(data)]
    if "layout" in data:
        parts.append(f"{counted(data['sites'], 'site')}, layout {data['layout']}, {data['encoding']}")
    parts += [f"{anomaly['code']} {anomaly['slug']} ({anomaly['count']:,})" for anomaly in data["anomalies"]]
    return printable(f"{data['file']}: {'; '.join(parts)}")


def _state(data: dict[str, Any]) -> str:
    return str(data["state"]) if "state" in data else "nothing to process"


def _summary(files: list[dict[str, Any]], failed: int) -> str:
    """Count files by kind and state, sites, and what is to be looked at."""
    kinds = Counter("boot file" if data["kind"] in BOOT_FILES else data["kind"] for data in files)
    states = Counter(_state(data) for data in files if data["kind"] not in BOOT_FILES)
    parts = [
        ", ".join(counted(count, kind, plural="vmlinux" if kind == "vmlinux" else "") for kind, count in kinds.items())
    ]
    parts.append(", ".join(f"{count:,} {state}" for state, count in states.items()))
    parts.append(counted(sum(data.get("sites", 0) for data in files), "site"))
    parts.append(counted(sum(bool(data.get("anomalies")) for data in files), "file") + " with anomalies")
    head = f"{len(files):,} of {counted(len(files) + failed, 'file')}"
    return f"{head}: {'; '.join(filter(None, parts))}" + (f"; {failed:,} FAILED (see above)" if failed else "")
