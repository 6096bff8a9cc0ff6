"""Arguments that may be ``example:NAME``, and the files that stand for it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prologue.errors import UsageError
from prologue.examples import PREFIX

if TYPE_CHECKING:
    from prologue.examples.place import Example


class OrExample(argparse.Action):
    """Store an argument that may be an example: that stands for the arguments in ``const``, too."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, option: str | None = None
    ) -> None:
        """Store it; with an example, require none of the others."""
        setattr(namespace, self.dest, values)
        for action in (self.const or ()) if str(values).startswith(PREFIX) else ():
            action.required = False


def example_files(arguments: Sequence[Path]) -> list[Path]:
    """Replace each example by its vmlinux; errors as of ``place_example``."""
    return [_placed(str(path)).vmlinux if str(path).startswith(PREFIX) else path for path in arguments]


def use_example_system(args: argparse.Namespace) -> None:
    """Let an example as VMLINUX stand for SOURCE, too.

    Raises:
        UsageError: no such example, it has no memory, or SOURCE is named as well.

    """
    argument = str(args.vmlinux)
    if not argument.startswith(PREFIX):
        return
    if args.source is not None:
        raise UsageError(f"{argument} stands for VMLINUX and SOURCE: name no SOURCE")
    example = _placed(argument)
    if example.memory is None:
        raise UsageError(f"{argument} has no memory: take {_having('memory')}")
    args.vmlinux, args.source = example.vmlinux, str(example.memory)


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
    example = _placed(argument)
    if example.trace is None:
        raise UsageError(f"{argument} has no trace: take {_having('trace')}")
    args.trace = [str(example.trace)]
    args.vmlinux = args.vmlinux or example.vmlinux


def _placed(argument: str) -> Example:
    from prologue.examples.place import place_example

    return place_example(argument)


def _having(part: str) -> str:
    """Name the examples that have this file."""
    from prologue.examples.place import example_names

    names = [PREFIX + name for name in example_names()]
    return " or ".join(name for name in names if getattr(_placed(name), part))
