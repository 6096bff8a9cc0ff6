"""``prologue help``."""

from __future__ import annotations

import argparse

from prologue.cli.parser import build_parser
from prologue.cli.subcommands import Subcommand, every_parser, fill_all
from prologue.errors import UsageError


def add_options(command: Subcommand) -> None:
    """Give ``help`` its options."""
    command.add_argument("commands", nargs="*", metavar="COMMAND", help="a command, or a group and its command")


def run(args: argparse.Namespace) -> int:
    """Print the help of a command; argparse ends the process.

    Raises:
        UsageError: a word after a command that is no group.

    """
    words = list(args.commands)
    parser = build_parser(words[0] if words else "")
    fill_all(parser)
    for each in every_parser(parser):
        command = each.prog.split()[1:]
        surplus = words[len(command) :]
        if each.get_default("handler") and command == words[: len(command)] and surplus:
            raise UsageError(f"{each.prog} is a command, not a group: {surplus[0]!r} cannot follow")
    parser.parse_args([*words, "--help"])
    return 0
