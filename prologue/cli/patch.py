"""``prologue patch``."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any, Final

from prologue.apply import apply_in_place, apply_to, new_file
from prologue.errors import InputError, RefusedError, UsageError
from prologue.plan.build import build_plan, choose_contract, require_own_plan
from prologue.plan.edits import PatchPlan, from_json, to_json
from prologue.readback import read_back
from prologue.rules.engine import approve
from prologue.sites.kernel import Kernel

SCHEMA: Final = "prologue.patch/1"


def run(args: Namespace) -> int:
    """Patch each file; stop at the first that fails."""
    if not (args.output or args.in_place or args.dry_run):
        raise UsageError("say where to write: -o OUT, --in-place, or --dry-run to write nothing")
    if len(args.files) > 1 and (args.output or args.save_plan or args.reverse):
        raise UsageError("-o, --save-plan and --reverse PLAN take one file")
    for path in args.files:
        result = _patch(path, args)
        print(_json(result) if args.json else _text(result))
    return 0


def _json(result: dict[str, Any]) -> str:
    import json

    return json.dumps(result, indent=2)


def _patch(path: Path, args: Namespace) -> dict[str, Any]:
    kernel = Kernel(path)
    result: dict[str, Any] = {"schema": SCHEMA, "file": str(path), "output": str(args.output or path)}
    if _nothing_to_do(kernel):
        # A build step must not fail where ftrace is configured off.
        if args.output:
            raise InputError("has no dynamic ftrace: nothing to process, and no copy was made", path=path)
        return result | {"contract": None, "state": "no ftrace", "sites": 0, "records": 0, "words_written": 0}
    plan = _reverse_plan(kernel, args) if args.reverse is not None else _forward_plan(kernel, args)
    approved = approve(kernel, plan)
    if args.save_plan:
        _save_plan(kernel, plan, args.save_plan)
    result |= {"contract": plan.contract, "sites": plan.count("site"), "records": plan.count("record")}
    if args.dry_run:
        return result | {"state": f"{kernel.state}, dry run", "words_written": 0}
    if args.output:
        independent = args.reread is not False
        written = apply_to(approved, args.output, partial(read_back, approved, independent=independent))
    else:
        written = apply_in_place(approved)
        read_back(approved, path, independent=bool(args.reread))
    return result | {"state": plan.goal, "words_written": written}


def _nothing_to_do(kernel: Kernel) -> bool:
    """No dynamic ftrace at all, or a table without a single function."""
    if kernel.bounds is None:
        return kernel.symbols.find("ftrace_init") is None
    return kernel.records is not None and not kernel.records.live.any()


def _save_plan(kernel: Kernel, plan: PatchPlan, path: Path) -> None:
    """Write the plan as JSON; a plan that could not be undone is never written over one that can.

    Raises:
        RefusedError: the words of ``ftrace_init_nop`` are overwritten already, and there is no plan that has them.

    """
    if kernel.marker is None and kernel.init_stub.state != "live" and plan.goal == "processed":
        if path.exists():
            return
        raise RefusedError(
            "processing has begun: a complete plan can be saved from the linked file only", path=kernel.path
        )
    import json

    with new_file(path) as temporary:
        temporary.write_text(json.dumps(to_json(plan)) + "\n", encoding="utf-8")


def _forward_plan(kernel: Kernel, args: Namespace) -> PatchPlan:
    return build_plan(kernel, choose_contract(kernel, args.contract))


def _reverse_plan(kernel: Kernel, args: Namespace) -> PatchPlan:
    """The inverse of a saved plan, or of the plan that this file's own words give."""
    if args.reverse:
        import json

        path = Path(args.reverse)
        try:
            plan = from_json(json.loads(path.read_text(encoding="utf-8")), path)
        except (OSError, ValueError) as error:
            raise InputError(f"cannot be read as a plan: {error}", path=path) from error
        require_own_plan(kernel, plan)
        return plan.inverse()
    if kernel.marker is None and kernel.init_stub.state != "live":
        raise RefusedError(
            "ftrace_init_nop was overwritten and its old words are not in this file: "
            "give the plan that --save-plan wrote (--reverse PLAN)",
            path=kernel.path,
        )
    return build_plan(kernel, kernel.contract).inverse()


def _text(result: dict[str, Any]) -> str:
    if result["contract"] is None:
        return f"{result['file']}: no dynamic ftrace, nothing to do"
    moved = f", {result['records']:,} records" if result["records"] else ""
    lab = " (bench and lab use only)" if result["contract"] == "stock" else ""
    return (
        f"{result['output']}: {result['state']}: {result['sites']:,} sites{moved}, "
        f"{result['words_written']:,} words written, contract {result['contract']}{lab}"
    )
