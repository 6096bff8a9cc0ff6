"""``prologue live audit --board``: several machines that run one kernel, on one page."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from prologue.cli.parallel import print_errors
from prologue.cli.reports import put_report
from prologue.elf.image import ElfImage
from prologue.errors import UNDECIDED, PrologueError, UsageError
from prologue.live.audit.outcome import all_errors
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


def audit_boards(
    args: Namespace, image: ElfImage, modules: dict[str, list[Path]] | None, rules: tuple[Rule, ...], ssh: Sequence[str]
) -> int:
    """Audit one machine after the other; return the worst exit code. One that cannot be read is named."""
    done: list[Audit] = []
    unread: list[PrologueError] = []
    for source in (args.source, *args.board):
        try:
            done.append(audit(RunningSystem(image, open_memory(source, ssh, args.timeout), modules), rules))
        except PrologueError as error:
            unread.append(error)
    print_errors([(error.message, str(error)) for error in (*unread, *(e for each in done for e in all_errors(each)))])
    codes = {*(error.exit_code for error in unread), *(_code(each, args.allow_undecided) for each in done)}
    page = boards_page(done, unread, args.command_line, lacking_allowed=args.allow_undecided)
    closing = counted_outcomes(done, unread, lacking_allowed=args.allow_undecided)
    put_report(args, render_page(page), closing, passes=codes == {0})
    return next(code for code in (*_WORST_FIRST, *codes) if code in codes)


def _code(done: Audit, lacking_allowed: bool) -> int:
    if done.mismatch or any(error.exit_code != UNDECIDED for error in all_errors(done)):
        return 2
    return 1 if done.failed else 0 if done.passes(lacking_allowed=lacking_allowed) else UNDECIDED
