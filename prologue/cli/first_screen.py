"""The first screen of ``prologue --help``: commands in groups, each with where to start."""

from __future__ import annotations

import argparse
from typing import Final

from prologue.cli.subcommands import Parser

# Title, commands, and the one to start with.
GROUPS: Final[tuple[tuple[str, tuple[str, ...], str], ...]] = (
    ("build and gate", ("scan", "patch", "verify", "kernel", "image", "variant"), "prologue verify vmlinux"),
    ("running kernel", ("live", "writes", "probe"), "prologue live audit vmlinux /proc/kcore"),
    ("traces", ("trace",), "prologue trace stats perf.data --vmlinux vmlinux"),
    ("bench", ("bench",), "prologue bench compare example:2019-a57"),
    ("reference", ("help", "schema", "rules", "explain", "transition", "protocol"), "prologue explain PL202"),
)


class FirstScreen(Parser):
    """The parser of all commands; its help has them in groups."""

    def format_help(self) -> str:
        """Return the help: usage, groups of commands, options, exit codes."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        commands = {
            action.dest: action
            for group in self._actions
            if isinstance(group, argparse._SubParsersAction)
            for action in group._choices_actions
        }
        for title, names, start in GROUPS:
            present = [commands[name] for name in names if name in commands]
            if not present:
                continue
            formatter.start_section(title)
            formatter.add_arguments(present)
            formatter.add_text(f"start here: {start}")
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments([action for action in self._actions if action.option_strings])
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()
