"""The way to the commands of the bench, which is another package: their options and handlers are found by name."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from prologue.cli.subcommands import Subcommand, add_command, add_commands, top_package
from prologue.errors import UsageError
from prologue.installation import how_to_install

if TYPE_CHECKING:
    from prologue.cli.subcommands import Commands

# What the bench needs beyond the tool itself.
_EXTRA: Final = ("prologue_bench", "elftools", "matplotlib", "qemu", "rich", "scipy", "tabulate")


def add_bench(group: Subcommand) -> None:
    """Give ``bench`` its commands.

    Raises:
        UsageError: the bench is not installed.

    """
    actions = add_commands(group)
    for name, help_, examples in _module("commands").COMMANDS:
        add_bench_command(actions, name, name, help_, examples)


def add_bench_command(actions: Commands, name: str, module: str, help_: str, examples: str) -> None:
    """Add a command whose options and handler are ``add_options`` and ``run`` of a module in the bench's ``cli``."""
    added = add_command(actions, name, "prologue.cli.bench:run", help_, examples)
    added.set_defaults(bench=module)
    added.when_chosen(lambda command: _module(module).add_options(command))


def run(args: argparse.Namespace) -> int:
    """Call the handler of the command.

    Raises:
        UsageError: the bench, or a library that only it needs, is not installed.

    """
    with _require_bench():
        return int(_module(args.bench).run(args))


def _module(name: str) -> Any:
    with _require_bench():
        return import_module(f"prologue_bench.cli.{name}")


@contextmanager
def _require_bench() -> Iterator[None]:
    """Say in one line what is not installed.

    Raises:
        UsageError: the bench, or a library that only it needs, is not installed.

    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = top_package(error)
        if package not in _EXTRA:
            raise
        raise UsageError(f"bench needs {package}, which is not installed: {how_to_install('bench')}") from error
