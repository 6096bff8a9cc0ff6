"""Arguments that may be ``example:NAME``, and the files that stand for it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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
    return [placed(str(path)).vmlinux if str(path).startswith(PREFIX) else path for path in arguments]


def placed(argument: str) -> Example:
    """Place an example; errors as of ``place_example``, which is imported only for one."""
    from prologue.examples.place import place_example

    return place_example(argument)


def examples_with(part: str) -> str:
    """Name the examples that have memory, or a trace."""
    from prologue.examples.place import example_names

    names = [PREFIX + name for name in example_names()]
    return " or ".join(name for name in names if getattr(placed(name), part))
