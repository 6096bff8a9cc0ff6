"""The example that stands for TRACE and ``--vmlinux``."""

from __future__ import annotations

import argparse

from prologue.cli.examples import examples_with, placed
from prologue.errors import UsageError
from prologue.examples import PREFIX


def use_example_trace(args: argparse.Namespace) -> None:
    """Let an example as TRACE stand for ``--vmlinux``, too, unless that is given.

    Raises:
        UsageError: no such example, it has no trace, or there are other traces.

    """
    argument = next((name for name in args.trace if name.startswith(PREFIX)), None)
    if argument is None:
        return
    if len(args.trace) > 1:
        raise UsageError(f"{argument} is a trace with its kernel: name no other TRACE")
    example = placed(argument)
    if example.trace is None:
        raise UsageError(f"{argument} has no trace: take {examples_with('trace')}")
    args.trace = [str(example.trace)]
    args.vmlinux = args.vmlinux or example.vmlinux
