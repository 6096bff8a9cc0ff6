"""Subcommands that get their options when they are chosen: a run needs one of some twenty."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from prologue.errors import UsageError

if TYPE_CHECKING:  # argparse's own class takes no parameter when it runs
    Commands = argparse._SubParsersAction["Subcommand"]


class Parser(argparse.ArgumentParser):
    """A parser whose help, if it cannot be printed, is an error: argparse's own passes over that."""

    def _print_message(self, message: str, file: Any = None) -> None:
        if file is sys.stdout:
            file.write(message)
        else:
            super()._print_message(message, file)


class Subcommand(Parser):
    """A parser whose options may be added when it first parses; all that argparse does, help included, comes after."""

    _fill: Callable[[Subcommand], None] | None = None

    def when_chosen(self, fill: Callable[[Subcommand], None]) -> None:
        """Let ``fill`` add the options when they are needed."""
        self._fill = fill

    def fill(self) -> None:
        """Add the options, once."""
        fill, self._fill = self._fill, None
        if fill is not None:
            fill(self)

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse what comes after the command's name; argparse calls this for the command that is chosen."""
        self.fill()
        return super().parse_known_args(args, namespace)


def add_commands(parser: argparse.ArgumentParser) -> Commands:
    """Give a parser subcommands."""
    return parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Subcommand)


def add_command(commands: Commands, name: str, handler: str, help_: str, examples: str) -> Subcommand:
    """Add one; ``handler`` (``MODULE:FUNCTION``) is what ``main`` calls, empty for a group of commands."""
    sentence = help_[0].upper() + help_[1:] + ("" if help_.endswith("?") else ".")
    command = commands.add_parser(
        name,
        help=help_,
        description=sentence,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if handler:
        command.set_defaults(handler=handler)
    return command


def import_function(place: str) -> Callable[[Any], Any]:
    """Import the function that ``MODULE:FUNCTION`` names."""
    module, _, function = place.partition(":")
    return getattr(import_module(module), function)  # type: ignore[no-any-return]


def fill_all(parser: argparse.ArgumentParser) -> None:
    """Fill every subcommand, for those that want to see the whole grammar; what is not installed stays empty."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                with suppress(UsageError):
                    command.fill()
                fill_all(command)
