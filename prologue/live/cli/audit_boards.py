"""``prologue live audit --board``: several machines that run one kernel, on one page."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Final

from prologue.cli.arguments import shell_words
from prologue.cli.parallel import print_errors
from prologue.cli.reports import is_wanted, put_report
from prologue.elf.image import ElfImage
from prologue.errors import UNDECIDED, PrologueError, UsageError
from prologue.live.audit.outcome import all_errors, exit_code
from prologue.live.audit.run import Audit
from prologue.live.hooks.run import audit
from prologue.live.memory.sources import open_memory
from prologue.live.pages.boards import boards_page, counted_outcomes
from prologue.live.system.running_system import RunningSystem
from prologue.report.html.page import render_page
from prologue.rules.base import Rule

_WORST_FIRST: Final = (2, 1, UNDECIDED, 0)


def check_boards(args: Namespace) -> None:
    """Refuse what a page over several machines has no use for.

    Raises:
        UsageError: another format than HTML; an earlier memory, or a picture, which are of one machine.

    """
    if args.board and (args.format != "html" or args.later or args.plot):
        raise UsageError("--board makes one page of several machines: give --format html -o FILE, no SOURCE2 or --plot")


def print_audit_errors(done: Audit) -> None:
    """Print what could not be audited, and that memory is another kernel's."""
    print_errors([(error.message, str(error)) for error in all_errors(done)])
    if done.mismatch:
        print_errors([(done.mismatch, f"{done.mismatch} (PL505)")])


def audit_boards(
    args: Namespace,
    image: ElfImage,
    modules: dict[str, list[Path]] | None,
    rules: tuple[Rule, ...],
    left_out: dict[str, str],
) -> int:
    """Audit one machine after the other; return the worst exit code. One that cannot be read is named.

    ``left_out`` says why each of the other rules did not run.
    """
    audits: list[Audit] = []
    unread: list[PrologueError] = []
    ssh, allowed = shell_words("--ssh-options", args.ssh_options), args.allow_undecided
    for source in (args.source, *args.board):
        try:
            done = audit(RunningSystem(image, open_memory(source, ssh, args.timeout), modules), rules)
        except PrologueError as error:
            print_errors([(error.message, str(error))])
            unread.append(error)
            continue
        print_audit_errors(done)
        audits.append(replace(done, left_out={**done.left_out, **left_out}))
    codes = {*(error.exit_code for error in unread), *(exit_code(each, lacking_allowed=allowed) for each in audits)}
    passes = codes == {0}
    if is_wanted(args, passes=passes):
        page = boards_page(audits, unread, args.command_line, lacking_allowed=allowed)
        put_report(args, render_page(page), counted_outcomes(audits, unread, lacking_allowed=allowed), passes=passes)
    return next(code for code in (*_WORST_FIRST, *codes) if code in codes)
