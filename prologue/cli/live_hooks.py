"""``prologue live hooks``."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path

from prologue.cli.arguments import require_html, shell_words
from prologue.errors import UNDECIDED
from prologue.live.hooks.inventory import Inventory, take_inventory
from prologue.live.memory.sources import open_memory
from prologue.live.system.running_kernel import RunningKernel, open_running
from prologue.outputs import require_other, write_text
from prologue.report.hooks import hooks_closing, hooks_data, hooks_text, unknown_lines
from prologue.report.printable import printable


def run(args: Namespace) -> int:
    """Report what is attached to a kernel that runs or ran; undecided if something about that is not known."""
    require_html(args.format)
    require_other(args.output, args.vmlinux, Path(args.source))
    memory = open_memory(args.source, shell_words("--ssh-options", args.ssh_options))
    inventory = take_inventory(RunningKernel(open_running(args.vmlinux, memory), memory))
    status = UNDECIDED if inventory.not_known else 0
    if args.quiet and not args.output and args.format == "text":
        for line in unknown_lines(inventory):
            print(line)
        return status
    report = _rendered(args, inventory)
    if not args.output:
        print(report)
        return status
    write_text(args.output, report + "\n")
    if not args.quiet:
        print(printable(f"{args.output}: {hooks_closing(inventory)}"), file=sys.stderr)
    return status


def _rendered(args: Namespace, inventory: Inventory) -> str:
    if args.format == "json":
        return json.dumps(hooks_data(inventory), indent=2)
    if args.format == "text":
        return hooks_text(inventory, show_all=args.all)
    from prologue.report.html.hooks import hooks_page
    from prologue.report.html.page import render_page

    return render_page(hooks_page(inventory, args.command_line))
