"""``prologue patch``."""

from __future__ import annotations

from argparse import BooleanOptionalAction, Namespace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

from prologue.cli.arguments import add_jobs, add_json
from prologue.cli.subcommands import Subcommand
from prologue.errors import PrologueError, UsageError
from prologue.kernel.load import named_files
from prologue.outputs import require_other, would_be_same
from prologue.patching.patch import PatchRequest, PatchResult, patch_file, patch_or_error
from prologue.words import counted, printable

SCHEMA: Final = "prologue.patch/1"


def add_options(command: Subcommand) -> None:
    """Give ``patch`` its options."""
    command.add_argument("files", type=Path, nargs="+", metavar="FILE",
                         help="vmlinux, module (.ko, .ko.xz, .ko.gz, .ko.zst), or a directory of modules")  # fmt: skip
    where = command.add_mutually_exclusive_group()
    where.add_argument("-o", "--output", type=Path, metavar="OUT", help="write a copy: whole or not at all")
    where.add_argument("--in-place", action="store_true", help="write into the file; a rerun finishes after a kill")
    command.add_argument(
        "--contract", choices=("auto", "native", "stock"), default="auto",
        help="what the kernel expects (default: native if it has the marker, otherwise an error)",
    )  # fmt: skip
    command.add_argument("--vmlinux", type=Path, metavar="VMLINUX", help="the kernel that will load these modules")
    command.add_argument("--strip-signature", action="store_true", help="strip the signatures of signed modules")
    add_jobs(command)
    command.add_argument("--dry-run", action="store_true", help="plan and check, write nothing")
    command.add_argument(
        "--reverse", type=Path, nargs="?", const=False, metavar="PLAN",
        help="undo: restore the file as it was linked (stock: needs the saved plan)",
    )  # fmt: skip
    command.add_argument(
        "--save-plan", type=Path, metavar="PLAN", help="write all edits as JSON before the first is made"
    )
    command.add_argument("--reread", action=BooleanOptionalAction, default=None,
                         help="re-read the result with an independent reader (default: with -o)")  # fmt: skip
    add_json(command, "patch")


def run(args: Namespace) -> int:
    """Patch one file, or many files with a summary."""
    if not (args.output or args.in_place or args.dry_run):
        raise UsageError("no output: use -o OUT, --in-place, or --dry-run to write nothing")
    paths = named_files(args.files)
    if len(paths) > 1 and (args.output or args.save_plan or args.reverse):
        raise UsageError("-o, --save-plan and --reverse PLAN take one file")
    request = _request(args, paths)
    read = (args.vmlinux, args.reverse or None)
    require_other(args.save_plan, *paths, *read)
    require_other(args.output, *read)
    if args.save_plan and args.output and would_be_same(args.save_plan, args.output):
        raise UsageError("-o and --save-plan name the same file")
    if len(paths) == 1 and not args.json:
        result = patch_file(request, paths[0])
        if not args.quiet:
            print(_text(result))
        return 0
    return _patch_many(paths, request, args)


def _request(args: Namespace, paths: list[Path]) -> PatchRequest:
    return PatchRequest(
        output=args.output,
        dry_run=args.dry_run,
        contract=args.contract,
        kernels=_kernels(args.vmlinux, paths),
        kernels_too=args.vmlinux is None,
        strip_signature=args.strip_signature,
        reverse=args.reverse is not None,
        undo=args.reverse or None,
        save_plan=args.save_plan,
        reread=args.reread,
    )


def _kernels(named: Path | None, paths: list[Path]) -> tuple[Path, ...]:
    """Find the kernels that may load the modules among the files."""
    if named is not None or len(paths) == 1:
        return () if named is None else (named,)
    from prologue.kernel.load import kernels_among  # the build step has one file, and must start fast

    return kernels_among(None, paths)


def _patch_many(paths: list[Path], request: PatchRequest, args: Namespace) -> int:
    """Patch every file that can be patched, even if others fail; the exit code is the worst one."""
    import json

    from prologue.cli.parallel import print_errors, run_many

    results, errors = [], []
    # Kernels first: modules of a stock kernel are processed for one that is.
    kernels = [path for path in paths if request.kernels_too and path in request.kernels]
    modules = [path for path in paths if path not in kernels]
    patch = partial(patch_or_error, request)
    for outcome in chain(map(patch, kernels), run_many(patch, modules, "patch", args.jobs)):
        if isinstance(outcome, PrologueError):
            errors.append(outcome)
        else:
            results.append(outcome)
    print_errors([(error.message, str(error)) for error in errors])
    worst = max((error.exit_code for error in errors), default=0)
    if args.json:
        files = list(map(_data, results))
        print(json.dumps({"schema": SCHEMA, "files": files, "failed": len(errors)}, indent=2))
    elif not args.quiet:
        print(_summary(results, len(paths)))
    return worst


def _data(result: PatchResult) -> dict[str, Any]:
    head = {"file": str(result.path), "output": str(result.output), "contract": result.contract}
    if result.contract is None:
        return head | {"state": result.state, "sites": 0, "records": 0, "words_written": 0, "words_to_write": None,
                       "marker_version": None}  # fmt: skip
    counts = {"sites": result.sites, "records": result.records}
    words = {"words_written": result.words_written, "words_to_write": result.words_to_write}
    return head | counts | {"state": result.state, **words, "marker_version": result.marker}


def _text(result: PatchResult) -> str:
    if result.contract is None:
        what = "no dynamic ftrace" if result.state == "no ftrace" else "no patch sites"
        return f"{printable(str(result.path))}: {what}, nothing to do"
    moved = f", {counted(result.records, 'record')}" if result.records else ""
    version = f", marker version {result.marker}" if result.marker else ""
    lab = " (bench and lab use only)" if result.contract == "stock" else ""
    return (
        f"{printable(str(result.output))}: {result.state}: {counted(result.sites, 'site')}{moved}, "
        f"{_words([result])}, contract {result.contract}{version}{lab}"
    )


def _words(results: list[PatchResult]) -> str:
    planned = [result.words_to_write for result in results if result.words_to_write is not None]
    if planned:
        return f"{counted(sum(planned), 'word')} would be written"
    return f"{counted(sum(result.words_written for result in results), 'word')} written"


def _summary(results: list[PatchResult], total: int) -> str:
    """Say in one line what was done to many files."""
    with_sites = [result for result in results if result.sites]
    sites = counted(sum(result.sites for result in with_sites), "site")
    parts = [f"{len(with_sites):,} of {counted(total, 'file')}, {sites}, {_words(results)}"]
    if len(results) > len(with_sites):
        idle = len(results) - len(with_sites)
        parts.append(f"{idle:,} {'has' if idle == 1 else 'have'} no sites")
    if total > len(results):
        parts.append(f"{total - len(results):,} FAILED (see above)")
    return "; ".join(parts)
