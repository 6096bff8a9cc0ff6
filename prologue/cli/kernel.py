"""``prologue kernel``: the build step in a kernel tree."""

from __future__ import annotations

import json
import re
import shlex
import sys
from argparse import Namespace
from pathlib import Path
from typing import Final

from prologue.errors import InputError
from prologue.kernel_tree.patches import KernelPatch, all_series, load_patch
from prologue.kernel_tree.source import OPTION, KernelTree
from prologue.kernel_tree.tree import install, uninstall

SCHEMA: Final = "prologue.kernel-check/1"
_DONE: Final = {"create": "created", "patch": "patched", "restore": "restored", "remove": "removed"}
_RELEASE: Final = re.compile(r"v?(\d+\.\d+)(?:\.\d+)?(?:[-+~].*)?")  # 6.12, v6.12.107, 6.12.107+deb13-arm64


def run_install(args: Namespace) -> int:
    """Put the patch in, or take it out."""
    outcome = (uninstall if args.uninstall else install)(args.tree, dry_run=args.dry_run)
    tree = outcome.tree
    if not outcome.steps:
        what = "is not installed" if args.uninstall else "is installed already"
        print(f"{args.tree}: Linux {tree.release}: the patch {what}, nothing to do")
    else:
        print(f"{args.tree}: Linux {tree.release}, with the patch for {tree.series}")
        for step in outcome.steps:
            print(f"  {f'would {step.action}' if args.dry_run else _DONE[step.action]:<14}{step.path}")
        for path in outcome.as_wanted:
            print(f"  {'was not in' if args.uninstall else 'was in':<14}{path}")
    if not args.uninstall and not args.dry_run:
        print(f"next: select CONFIG_{OPTION}, build as always, then:")
        print(f"  prologue kernel check {shlex.quote(str(args.tree))}")
    return 0


def run_check(args: Namespace) -> int:
    """Check that the step is in, selected, able to run, and has run; 1 if something is not."""
    from prologue.kernel_tree.check import check_tree

    tree = KernelTree(args.tree)
    checks = check_tree(tree, args.objtree)
    well = all(check.status != "no" for check in checks)
    if args.json:
        rows = [
            {"name": c.name, "status": c.status, "message": c.message, "to_do": c.to_do or None, **c.facts}
            for c in checks
        ]
        objtree = str(args.objtree or args.tree)
        data = {"schema": SCHEMA, "tree": str(args.tree), "objtree": objtree, "release": tree.release, "ok": well}
        print(json.dumps({**data, "checks": rows}, indent=2))
        return 0 if well else 1
    print(f"{args.tree}: Linux {tree.release}")
    width = max(len(check.name) for check in checks)
    for check in checks:
        print(f"{check.status:<2}  {check.name:<{width}}  {check.message}")
        if check.to_do:
            print(f"    {'':<{width}}  -> {check.to_do}")
    return 0 if well else 1


def run_patch(args: Namespace) -> int:
    """Print the patch as mail."""
    mail = _patch_for(args.release).mail
    sys.stdout.flush()
    sys.stdout.buffer.write(mail)
    sys.stdout.buffer.flush()
    return 0


def _patch_for(release: str) -> KernelPatch:
    if found := _RELEASE.fullmatch(release):
        return load_patch(found[1])
    if not Path(release).exists():
        known = ", ".join(all_series())
        raise InputError(f"is neither a kernel tree nor a release; there are patches for {known}", path=release)
    return KernelTree(Path(release)).patch
