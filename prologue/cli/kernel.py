"""``prologue kernel``: the build step in a kernel tree."""

from __future__ import annotations

import json
import re
import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prologue.cli.arguments import add_json
from prologue.cli.subcommands import Subcommand, add_command, add_commands
from prologue.errors import InputError, UsageError
from prologue.kernel_tree.patches import MODES, STANDALONE, all_series, default_mode, load_patch
from prologue.kernel_tree.source import OPTION, KernelTree
from prologue.kernel_tree.tree import install, uninstall
from prologue.report.terminal import warn

if TYPE_CHECKING:
    from prologue.kernel_tree.mail import Mail

_MODE_HELP: Final = "the step in a tool, or in the kernel's sorttable; or the loop at boot alone"
SCHEMA: Final = "prologue.kernel-check/1"
_DONE: Final = {"create": "created", "patch": "patched", "restore": "restored", "remove": "removed"}
_RELEASE: Final = re.compile(r"v?(\d+\.\d+)(?:\.\d+)?(?:[-+~].*)?")  # 6.12, v6.12.107, 6.12.107+deb13-arm64


def add_kernel(group: Subcommand) -> None:
    """Give ``kernel`` its commands."""
    actions = add_commands(group)
    install = add_command(
        actions, "install", "prologue.cli.kernel:run_install", "apply the patch for the tree's release",
        "  prologue kernel install linux --dry-run\n  prologue kernel install linux\n"
        "  prologue kernel install linux --mode sorttable   # no tool in the build: the kernel's own sorttable\n"
        "  prologue kernel install linux --mode boot        # no step in the build: one loop at boot\n"
        "  prologue kernel install linux --uninstall",
    )  # fmt: skip
    install.add_argument("tree", type=Path, metavar="TREE", help="a kernel's source")
    install.add_argument("--dry-run", action="store_true", help="print what would be done, change nothing")
    install.add_argument("--uninstall", action="store_true", help="remove it; your other changes stay")
    install.add_argument("--mode", choices=tuple(MODES), help=f"{_MODE_HELP} (default: build)")
    check = add_command(
        actions, "check", "prologue.cli.kernel:run_check", "check that the build step is in, selected, and has run",
        "  prologue kernel check linux\n  prologue kernel check linux --objtree build --json",
    )  # fmt: skip
    check.add_argument("tree", type=Path, metavar="TREE", help="a kernel's source")
    check.add_argument("--objtree", type=Path, metavar="DIR", help="where it is built (make O=DIR), if not in TREE")
    add_json(check, "kernel-check")
    patch = add_command(
        actions, "patch", "prologue.cli.kernel:run_patch", "print or write the patch series, ready to post",
        "  prologue kernel patch 6.12 | git am\n  prologue kernel patch linux -o outgoing --figures counts.json\n"
        "  prologue kernel patch 6.12 --cover-letter\n  prologue kernel patch --series init-mem linux | git am",
    )  # fmt: skip
    patch.add_argument("release", metavar="RELEASE|TREE", help="such as 6.12, or a kernel's source (./6.12)")
    patch.add_argument("--mode", choices=tuple(MODES),
                       help=f"{_MODE_HELP} (default: sorttable, build where the release has none)")  # fmt: skip
    patch.add_argument("--series", choices=STANDALONE, metavar="NAME",
                       help=f"a patch for any kernel, not part of the series: {', '.join(STANDALONE)}")  # fmt: skip
    patch.add_argument("-o", "--output", type=Path, metavar="OUT",
                       help="write one file for each patch, and 0000-cover-letter.patch")  # fmt: skip
    patch.add_argument("--cover-letter", action="store_true", help="print the cover letter alone")
    patch.add_argument("--figures", type=Path, action="append", default=[], metavar="FILE",
                       help="counts, of bench/exact_counts.py --json or scan --json; repeatable")  # fmt: skip


def run_install(args: Namespace) -> int:
    """Put the patch in, or take it out."""
    if args.uninstall and args.mode:
        raise UsageError("--uninstall takes out the mode that is in: leave out --mode")
    if args.uninstall:
        outcome = uninstall(args.tree, dry_run=args.dry_run)
    else:
        outcome = install(args.tree, mode=args.mode or "build", dry_run=args.dry_run)
    if args.quiet:
        return 0
    tree = outcome.tree
    if not outcome.steps:
        what = "is not installed" if args.uninstall else "is installed already"
        print(f"{args.tree}: Linux {tree.release}: the patch {what}, nothing to do")
    else:
        print(f"{args.tree}: Linux {tree.release}, with the patch for {tree.series}, mode {tree.mode}")
        for action, path in outcome.steps:
            print(f"  {f'would {action}' if args.dry_run else _DONE[action]:<14}{path}")
        for path in outcome.as_wanted:
            print(f"  {'was not in' if args.uninstall else 'was in':<14}{path}")
    if not args.uninstall and not args.dry_run:
        option = "" if tree.mode == "boot" else f"select CONFIG_{OPTION}, "
        print(f"next: {option}build as always, then:")
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
    if not args.quiet:
        print(f"{args.tree}: Linux {tree.release}")
    width = max(len(check.name) for check in checks)
    for check in checks if not args.quiet else [check for check in checks if check.status == "no"]:
        print(f"{check.status:<2}  {check.name:<{width}}  {check.message}")
        if check.to_do:
            print(f"    {'':<{width}}  -> {check.to_do}")
    return 0 if well else 1


def run_patch(args: Namespace) -> int:
    """Print the series as mail, or its cover letter, or write both into a directory."""
    if args.series:
        return _run_standalone(args)
    from prologue.kernel_tree.cover import SUBJECTS, cover_text, read_figures
    from prologue.kernel_tree.git import identity
    from prologue.kernel_tree.mail import cover_mail, patch_mails

    if args.cover_letter and args.output:
        raise UsageError("-o DIR writes the cover letter too: leave out --cover-letter")
    release, tree = _release(args.release, all_series())
    series = load_patch(release, tree, mode=args.mode or default_mode(release))
    figures = [read_figures(path) for path in args.figures]
    who = identity(tree or Path())  # the settings of the tree say who posts it
    mails = []
    if args.cover_letter or args.output:
        mails.append(cover_mail(series, who, SUBJECTS[series.mode], cover_text(series, figures), tree))
    if not args.cover_letter:
        lines = [line for file in figures for line in (*file, "")][:-1]
        mails += patch_mails(series, who, tree, lines)
    _put_out(mails, args)
    if args.output and not figures:
        warn(f"{args.output / mails[0].name}: has no figures (--figures FILE)")
    return 0


def _run_standalone(args: Namespace) -> int:
    """Print or write a patch that is not part of the series."""
    from prologue.kernel_tree.git import identity
    from prologue.kernel_tree.mail import patch_mails
    from prologue.kernel_tree.patches import load_standalone, standalone_releases

    if args.mode or args.figures or args.cover_letter:
        raise UsageError(
            f"--series {args.series} is one patch with its figures: leave out --mode, --cover-letter and --figures"
        )
    release, tree = _release(args.release, standalone_releases(args.series))
    patch = load_standalone(args.series, release, tree)
    _put_out(patch_mails(patch, identity(tree or Path()), tree), args)
    return 0


def _put_out(mails: Sequence[Mail], args: Namespace) -> None:
    """Write mails into a directory and name the files, or print them."""
    from prologue.kernel_tree.mail import write_mails

    if args.output:
        write_mails(args.output, mails)
        for mail in () if args.quiet else mails:
            print(args.output / mail.name)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(b"".join(mail.text for mail in mails))
    sys.stdout.buffer.flush()


def _release(text: str, known: Sequence[str]) -> tuple[str, Path | None]:
    """Return the release that a word or a tree names, and the tree."""
    if match := _RELEASE.fullmatch(text):
        return match[1], None
    if not Path(text).exists():
        raise InputError(f"is neither a kernel tree nor a release; there are patches for {', '.join(known)}", path=text)
    return KernelTree(Path(text)).series, Path(text)
