"""``prologue help``."""

from __future__ import annotations

import argparse

from prologue.cli.parser import build_parser
from prologue.cli.subcommands import Subcommand


def add_options(command: Subcommand) -> None:
    """Give ``help`` its options."""
    command.add_argument("commands", nargs="*", metavar="COMMAND", help="a command, or a group and its command")


def run(args: argparse.Namespace) -> int:
    """Print the help of a command; argparse ends the process."""
    words = list(args.commands)
    build_parser(words[0] if words else "").parse_args([*words, "--help"])
    return 0
