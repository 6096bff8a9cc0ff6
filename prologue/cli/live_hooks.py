"""``prologue live hooks``."""

from __future__ import annotations

import json
from argparse import Namespace

from prologue.cli.arguments import shell_words
from prologue.live.hooks.inventory import take_inventory
from prologue.live.memory.sources import open_memory
from prologue.live.system.running_kernel import RunningKernel, open_running
from prologue.report.hooks import hooks_data, hooks_text


def run(args: Namespace) -> int:
    """Print what is attached to a kernel that runs or ran."""
    memory = open_memory(args.source, shell_words("--ssh-options", args.ssh_options))
    inventory = take_inventory(RunningKernel(open_running(args.vmlinux, memory), memory), memory)
    if args.json:
        print(json.dumps(hooks_data(inventory), indent=2))
    elif not args.quiet:
        print(hooks_text(inventory, show_all=args.all))
    return 0
