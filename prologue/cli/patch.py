"""``prologue patch``."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any, Final

from prologue.apply import apply_in_place, apply_to, new_file, require_other, rewrite
from prologue.errors import InputError, PrologueError, RefusedError, UsageError
from prologue.plan.build import build_plan, choose_contract, require_own_plan
from prologue.plan.edits import PatchPlan, from_json, to_json
from prologue.readback import read_back
from prologue.rules.engine import approve
from prologue.sites.binary import Binary
from prologue.sites.kernel import Contract, Kernel
from prologue.sites.load import named_files, open_binary
from prologue.sites.module import Module

SCHEMA: Final = "prologue.patch/1"


def run(args: Namespace) -> int:
    """Patch one file, or many and sum up."""
    if not (args.output or args.in_place or args.dry_run):
        raise UsageError("say where to write: -o OUT, --in-place, or --dry-run to write nothing")
    paths = named_files(args.files)
    if len(paths) > 1 and (args.output or args.save_plan or args.reverse):
        raise UsageError("-o, --save-plan and --reverse PLAN take one file")
    read = (args.vmlinux, Path(args.reverse) if args.reverse else None)
    require_other(args.save_plan, *paths, *read)
    require_other(args.output, *read)
    if args.save_plan and args.output and args.save_plan.resolve() == args.output.resolve():
        raise UsageError("-o and --save-plan name one file")
    if len(paths) == 1:
        result = _patch(paths[0], args)
        if not args.quiet:
            print(_json(result) if args.json else _text(result))
        return 0
    return _patch_many(paths, args)


def _patch_many(paths: list[Path], args: Namespace) -> int:
    """Patch every file that can be patched, whatever becomes of the others; the exit code is the worst one."""
    from prologue.parallel import print_errors, run_many

    results, errors = [], []
    for outcome in run_many(partial(_patch_or_error, args=args), paths, "patch", args.jobs):
        if isinstance(outcome, PrologueError):
            errors.append(outcome)
        else:
            results.append(outcome)
    print_errors([(error.message, str(error)) for error in errors])
    worst = max((error.exit_code for error in errors), default=0)
    if not args.quiet:
        everything = {"schema": SCHEMA, "files": results, "failed": len(paths) - len(results)}
        print(_json(everything) if args.json else _summary(results, len(paths)))
    return worst


def _patch_or_error(path: Path, args: Namespace) -> dict[str, Any] | PrologueError:
    try:
        return _patch(path, args)
    except PrologueError as error:
        return error


def _json(result: dict[str, Any]) -> str:
    import json

    return json.dumps(result, indent=2)


def _patch(path: Path, args: Namespace) -> dict[str, Any]:
    binary = open_binary(path, unsigned=args.strip_signature)
    result: dict[str, Any] = {"schema": SCHEMA, "file": str(path), "output": str(args.output or path)}
    if _nothing_to_do(binary):
        # A build step must not fail where ftrace is configured off, or a module has no function of its own.
        if args.output:
            raise InputError("has no patch sites: nothing to process, and no copy was made", path=path)
        state = "no sites" if isinstance(binary, Module) else "no ftrace"
        return result | {"contract": None, "state": state, "sites": 0, "records": 0, "words_written": 0}
    plan = _reverse_plan(binary, args) if args.reverse is not None else _forward_plan(binary, args)
    if isinstance(binary, Module) and binary.state != plan.goal:
        _require_unsigned(binary)
    approved = approve(binary, plan)
    if args.save_plan:
        _save_plan(binary, plan, args.save_plan)
    result |= {"contract": plan.contract, "sites": plan.count("site"), "records": plan.count("record")}
    if args.dry_run:
        return result | {"state": f"{binary.state}, dry run", "words_written": 0}
    independent = bool(args.output) if args.reread is None else args.reread
    if isinstance(binary, Module) and (binary.compression or binary.stripped):
        written = rewrite(approved, args.output or path, partial(read_back, approved, independent=independent))
    elif args.output:
        written = apply_to(approved, args.output, partial(read_back, approved, independent=independent))
    else:
        written = apply_in_place(approved)
        read_back(approved, path, independent=independent)
    return result | {"state": plan.goal, "words_written": written}


def _nothing_to_do(binary: Binary) -> bool:
    """No dynamic ftrace at all, or a table without a single function."""
    if binary.records is not None:
        return not binary.records.live.any()
    if isinstance(binary, Kernel):
        return binary.bounds is None and binary.symbols.find("ftrace_init") is None
    return True


def _save_plan(binary: Binary, plan: PatchPlan, path: Path) -> None:
    """Write the plan as JSON; a plan that could not be undone is never written over one that can.

    Raises:
        RefusedError: the words of ``ftrace_init_nop`` are overwritten already, and there is no plan that has them.

    """
    if plan.goal == "processed" and _init_words_are_gone(binary):
        if path.exists():
            return
        raise RefusedError(
            "processing has begun: a complete plan can be saved from the linked file only", path=binary.path
        )
    import json

    with new_file(path) as temporary:
        temporary.write_text(json.dumps(to_json(plan)) + "\n", encoding="utf-8")


def _init_words_are_gone(binary: Binary) -> bool:
    return isinstance(binary, Kernel) and binary.marker is None and binary.init_stub.state != "live"


def _forward_plan(binary: Binary, args: Namespace) -> PatchPlan:
    if isinstance(binary, Module):
        return build_plan(binary, _module_contract(binary, args))
    assert isinstance(binary, Kernel)  # noqa: S101 - there is no third kind
    return build_plan(binary, choose_contract(binary, args.contract))


def _require_unsigned(module: Module) -> None:
    if module.signature is not None:
        raise RefusedError(
            "is signed, and processing would break the signature: process modules before they are signed, "
            "or take it off with --strip-signature",
            path=module.path,
        )


def _module_contract(module: Module, args: Namespace) -> Contract:
    """A module does not say what its kernel expects: the user does, or the kernel.

    Raises:
        RefusedError: nobody says, or it is not meant for that kernel.

    """
    if args.vmlinux is None:
        if args.contract == "auto":
            raise RefusedError(
                "a module does not say what its kernel expects: name the kernel with --vmlinux VMLINUX, "
                "or say --contract native or --contract stock",
                path=module.path,
            )
        return "native" if args.contract == "native" else "stock"
    from prologue.verify import load_vmlinux, mismatch

    kernel = load_vmlinux(args.vmlinux)
    reason = mismatch(module, kernel)
    if reason:
        raise RefusedError(reason, path=module.path)
    contract = choose_contract(kernel, "native" if kernel.marker else "stock")
    if args.contract not in ("auto", contract):
        raise RefusedError(f"{args.vmlinux} follows the {contract} contract", path=module.path)
    if contract == "stock" and not kernel.writes_no_prologues:
        raise RefusedError(
            f"{args.vmlinux} is not processed: it writes prologues itself and refuses those that are there; "
            "process it first",
            path=module.path,
        )
    return contract


def _reverse_plan(binary: Binary, args: Namespace) -> PatchPlan:
    """The inverse of a saved plan, or of the plan that this file's own words give."""
    if args.reverse:
        import json

        path = Path(args.reverse)
        try:
            plan = from_json(json.loads(path.read_text(encoding="utf-8")), path)
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"cannot be read as a plan: {error}", path=path) from error
        require_own_plan(binary, plan)
        return plan.inverse()
    if _init_words_are_gone(binary):
        raise RefusedError(
            "ftrace_init_nop was overwritten and its old words are not in this file: "
            "give the plan that --save-plan wrote (--reverse PLAN)",
            path=binary.path,
        )
    return build_plan(binary, binary.contract if isinstance(binary, Kernel) else "native").inverse()


def _text(result: dict[str, Any]) -> str:
    if result["contract"] is None:
        what = "no dynamic ftrace" if result["state"] == "no ftrace" else "no patch sites"
        return f"{result['file']}: {what}, nothing to do"
    moved = f", {result['records']:,} records" if result["records"] else ""
    lab = " (bench and lab use only)" if result["contract"] == "stock" else ""
    return (
        f"{result['output']}: {result['state']}: {result['sites']:,} sites{moved}, "
        f"{result['words_written']:,} words written, contract {result['contract']}{lab}"
    )


def _summary(results: list[dict[str, Any]], total: int) -> str:
    """One line for many files."""
    with_sites = [r for r in results if r["sites"]]
    parts = [
        f"{len(with_sites):,} of {total:,} files, {sum(r['sites'] for r in with_sites):,} sites, "
        f"{sum(r['words_written'] for r in results):,} words written"
    ]
    if len(results) > len(with_sites):
        parts.append(f"{len(results) - len(with_sites):,} have no sites")
    if total > len(results):
        parts.append(f"{total - len(results):,} FAILED (see above)")
    return "; ".join(parts)
