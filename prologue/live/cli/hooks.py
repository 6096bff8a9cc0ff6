"""``prologue live hooks``."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from prologue.cli.arguments import is_wanted, put_report, require_html, shell_words
from prologue.errors import UNDECIDED
from prologue.live.audit.run import LIVE_RULES
from prologue.live.hooks.run import OF_LISTENERS, REPORTED, findings_of, read_hooks
from prologue.live.memory.sources import open_memory
from prologue.live.report.hooks import (
    HookListing,
    finding_lines,
    hooks_closing,
    hooks_data,
    hooks_text,
    unknown_lines,
)
from prologue.live.system.running_kernel import RunningKernel, open_running
from prologue.outputs import require_other
from prologue.rules.base import FAILING


def run(args: Namespace) -> int:
    """Report what is attached to a kernel that runs or ran: 1 if some of it is wrong, 5 if there are gaps."""
    require_html(args.format)
    require_other(args.output, args.vmlinux, Path(args.source))
    memory = open_memory(args.source, shell_words("--ssh-options", args.ssh_options), args.timeout)
    listing = _listing(RunningKernel(open_running(args.vmlinux, memory), memory))
    wrong = any(finding.severity in FAILING for finding in listing.findings)
    status = 1 if wrong else UNDECIDED if listing.not_known else 0
    if not is_wanted(args, passes=not wrong):
        for line in unknown_lines(listing):
            print(line)
    elif args.output is None and args.format == "text" and args.quiet:
        print("\n".join([*finding_lines(listing), *unknown_lines(listing), hooks_closing(listing)]))
    elif args.output is None:
        print(_rendered(args, listing))  # a wide table, whose lines are not to be wrapped
    else:
        put_report(args, _rendered(args, listing), hooks_closing(listing), passes=not wrong)
    return status


def _listing(kernel: RunningKernel) -> HookListing:
    """Read what is attached, and judge it as an audit does."""
    inventory, judged = read_hooks(kernel, OF_LISTENERS)
    rules = {rule.code: rule for rule in LIVE_RULES if rule.code in REPORTED}
    findings, undecided = findings_of(inventory, judged, rules)
    # Of a list that was being changed, the inventory says it.
    gaps = [gap for gap in judged.not_known if gap.is_open and gap.what == OF_LISTENERS[0][0]]
    not_known = dict.fromkeys([*map(str, inventory.not_known), *map(str, gaps), *undecided])
    return HookListing(inventory=inventory, findings=tuple(findings), not_known=tuple(not_known))


def _rendered(args: Namespace, listing: HookListing) -> str:
    if args.format == "json":
        return json.dumps(hooks_data(listing), indent=2)
    if args.format == "text":
        return hooks_text(listing, show_all=args.all)
    from prologue.live.pages.hooks import hooks_page
    from prologue.report.html.page import render_page

    return render_page(hooks_page(listing, args.command_line))
