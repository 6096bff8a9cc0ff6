"""Subcommands that get their options when they are chosen: a run needs one of some twenty."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from prologue.companions import companion_of, installed, why_absent
from prologue.errors import UsageError
from prologue.report.terminal import COLORS
from prologue.words import meant

if TYPE_CHECKING:  # argparse's own class takes no parameter when it runs
    Commands = argparse._SubParsersAction["Subcommand"]


class Command(NamedTuple):
    """A command or a group of them, and where its code is: that is imported when it is chosen."""

    name: str  # with the group's, if another companion has that: "live probe"
    handler: str  # MODULE:FUNCTION; empty for a group
    help: str
    examples: str
    options: str  # MODULE:FUNCTION that adds the options, or the group's commands


class _StoreOnce(argparse._StoreAction):
    """Store a value; a second name is refused, for it would replace the first in silence.

    Of several choices or numbers the last one counts, as with every tool: an alias may have some.
    """

    _given = False

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, option: str | None = None
    ) -> None:
        """Store it."""
        if self._given and self.choices is None and self.type in (None, Path):
            raise argparse.ArgumentError(self, "given more than once, and takes one value")
        self._given = option is not None
        setattr(namespace, self.dest, values)


class Parser(argparse.ArgumentParser):
    """A parser that takes no abbreviated options, and says what else a wrong word may have meant.

    Its help, if it cannot be printed, is an error: argparse's own passes over that.
    """

    elsewhere: Callable[[str], str] = staticmethod(lambda _word: "")
    """Suggests the commands of other groups that a word names; set by the module that knows all."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **{"allow_abbrev": False, **named})
        for store in (None, "store"):
            self.register("action", store, _StoreOnce)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Parse a word; an empty one would be the current directory, and ``-`` a file of that name."""
        names = action.type is Path or not (action.option_strings or isinstance(action, argparse._SubParsersAction))
        if names and not arg_string:
            raise argparse.ArgumentError(action, "is an empty word: is a variable not set?")
        if action.type is Path and arg_string == "-":
            raise argparse.ArgumentError(action, "takes a file, not standard input or output (or is it ./- ?)")
        return super()._get_value(action, arg_string)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            name = " ".join([*self.prog.split()[1:], value])
            if why := why_absent(command=name):
                raise UsageError(f"no command {name!r}: {why}")
            hint = self.elsewhere(value) or meant(value, action.choices) or f"{self.prog} --help lists them"
            raise argparse.ArgumentError(None, f"no command {value!r}: {hint}")
        if "--format" in action.option_strings and value == "json" and "--json" in self._option_string_actions:
            raise argparse.ArgumentError(action, "JSON is printed by --json")
        super()._check_value(action, value)

    def refuse(self, surplus: Sequence[str]) -> None:
        """End with an error about words that mean nothing, if there are any."""
        if surplus:
            options = [option for action in self._actions for option in action.option_strings]
            hint = meant(surplus[0].partition("=")[0], options) if surplus[0].startswith("-") else ""
            self.error(f"unrecognized arguments: {' '.join(surplus)}{hint and ': ' + hint}")

    def _print_message(self, message: str, file: Any = None) -> None:
        if file is sys.stdout:
            file.write(message)
        else:
            super()._print_message(message, file)


class Subcommand(Parser):
    """A parser whose options may be added when it first parses; all that argparse does, help included, comes after."""

    _fill: Callable[[Subcommand], None] | None = None
    _filled = False

    def when_chosen(self, fill: Callable[[Subcommand], None]) -> None:
        """Let ``fill`` add the options when they are needed."""
        self._fill = fill

    def fill(self) -> None:
        """Add the options, once; those of every command come last."""
        if self._filled:
            return
        self._filled = True
        if self._fill is not None:
            self._fill(self)
        add_common(self)

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse what comes after the command's name; argparse calls this for the command that is chosen."""
        self.fill()
        known, surplus = super().parse_known_args(args, namespace)
        self.refuse(surplus)  # here: the parser of all commands would show its own usage
        return known, surplus


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command, which may stand before and after its name: a default would undo the former."""
    common = parser.add_argument_group("in every command")
    common.add_argument("--color", choices=COLORS, default=argparse.SUPPRESS,
                        help="severities in colour (default: auto, on a terminal without NO_COLOR)")  # fmt: skip
    amount = common.add_mutually_exclusive_group()
    amount.add_argument("-q", "--quiet", action="store_true", default=argparse.SUPPRESS,
                        help="print nothing but errors and findings: no notes, no report of success")  # fmt: skip
    amount.add_argument("-v", "--verbose", action="store_true", default=argparse.SUPPRESS,
                        help="say in the end how long it took, and how much memory")  # fmt: skip
    common.add_argument("--debug", action="store_true", default=argparse.SUPPRESS,
                        help="show a traceback when something fails")  # fmt: skip


def add_commands(parser: argparse.ArgumentParser) -> Commands:
    """Give a parser subcommands; ``main`` shows its help if none is chosen."""
    parser.set_defaults(handler="", group=parser)
    return parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Subcommand)


def add_command(commands: Commands, name: str, handler: str, help_: str, examples: str) -> Subcommand:
    """Add a subcommand; ``handler`` (``MODULE:FUNCTION``) is what ``main`` calls, empty for a group of commands."""
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


def add_listed(commands: Commands, listed: Iterable[Command]) -> None:
    """Add commands of a table."""
    for each in listed:
        added = add_command(commands, each.name.split()[-1], each.handler, each.help, each.examples)
        added.when_chosen(partial(call, each.options))


def add_of_companions(commands: Commands, group: str) -> None:
    """Add to a group those of its commands that other companions bring."""
    for companion in installed():
        if any(name.startswith(f"{group} ") for name in companion.commands):
            listed: Iterable[Command] = companion.load("cli.commands").COMMANDS
            add_listed(commands, (each for each in listed if each.name.startswith(f"{group} ")))


def call(place: str, argument: object) -> Any:
    """Import the function that ``MODULE:FUNCTION`` names, and call it.

    Raises:
        UsageError: a library that only its companion needs is not installed.

    """
    module, _, function = place.partition(":")
    with _named_libraries(module):
        return getattr(import_module(module), function)(argument)


@contextmanager
def _named_libraries(module: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        companion, package = companion_of(module), top_package(error)
        if companion is None or package not in companion.libraries:
            raise
        from prologue.installation import how_to_install

        how = how_to_install(companion.extra)
        raise UsageError(f"{companion.name} needs {package}, which is not installed: {how}") from error


def top_package(error: ModuleNotFoundError) -> str:
    """Return the package that is not installed."""
    return (error.name or "").partition(".")[0]


def every_parser(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Return a parser and those of all its commands, each group before its commands."""
    groups = [action.choices.values() for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return [parser, *(below for group in groups for command in group for below in every_parser(command))]


def fill_all(parser: argparse.ArgumentParser, *, complete: bool = False) -> None:
    """Fill every subcommand, for those that want to see the whole grammar; what is not installed stays empty.

    Raises:
        UsageError: with ``complete``, something is not installed.

    """
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                with nullcontext() if complete else suppress(UsageError):
                    command.fill()
                fill_all(command, complete=complete)
