"""``prologue live hooks``."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from prologue.cli.arguments import require_html, shell_words
from prologue.cli.reports import is_wanted, put_report
from prologue.errors import UNDECIDED
from prologue.live.hooks.inventory import Inventory, take_inventory
from prologue.live.memory.sources import open_memory
from prologue.live.system.running_kernel import RunningKernel, open_running
from prologue.outputs import require_other
from prologue.report.hooks import hooks_closing, hooks_data, hooks_text, unknown_lines


def run(args: Namespace) -> int:
    """Report what is attached to a kernel that runs or ran; undecided if something about that is not known."""
    require_html(args.format)
    require_other(args.output, args.vmlinux, Path(args.source))
    memory = open_memory(args.source, shell_words("--ssh-options", args.ssh_options))
    inventory = take_inventory(RunningKernel(open_running(args.vmlinux, memory), memory))
    status = UNDECIDED if inventory.not_known else 0
    if not is_wanted(args, passes=True):
        for line in unknown_lines(inventory):
            print(line)
    elif args.output is None:
        print(_rendered(args, inventory))  # a wide table, whose lines are not to be wrapped
    else:
        put_report(args, _rendered(args, inventory), hooks_closing(inventory))
    return status


def _rendered(args: Namespace, inventory: Inventory) -> str:
    if args.format == "json":
        return json.dumps(hooks_data(inventory), indent=2)
    if args.format == "text":
        return hooks_text(inventory, show_all=args.all)
    from prologue.report.html.hooks import hooks_page
    from prologue.report.html.page import render_page

    return render_page(hooks_page(inventory, args.command_line))
