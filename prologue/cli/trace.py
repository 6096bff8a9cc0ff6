"""The grammar of ``prologue trace``."""

from __future__ import annotations

from prologue.cli import trace_record
from prologue.cli.subcommands import Subcommand, add_command, add_commands


def add_trace(group: Subcommand) -> None:
    """Add its commands."""
    actions = add_commands(group)
    record = add_command(
        actions, "record", "prologue.cli.trace_record:run", trace_record.HELP, trace_record.EXAMPLES
    )  # fmt: skip
    record.when_chosen(trace_record.add_options)
