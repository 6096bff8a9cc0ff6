"""The options of commands that draw pictures."""

from __future__ import annotations

import argparse
import re
from argparse import Namespace
from pathlib import Path
from typing import Final

from prologue.errors import UsageError
from prologue.report.pictures import PictureLook
from prologue.report.printable import printable

_SIZE: Final = re.compile(r"([1-9]\d{2,4})x([1-9]\d{2,4})", re.ASCII)
_MOST: Final = 10_000  # pixels; a PNG of as many each way takes 400 MB of memory to draw


def add_look(command: argparse.ArgumentParser) -> None:
    """Add what a reader may choose of a picture."""
    look = command.add_argument_group("the picture")
    look.add_argument("--title", metavar="TEXT", help="its title")
    look.add_argument("--size", type=_size, metavar="WIDTHxHEIGHT", help="in pixels, such as 1600x900")
    look.add_argument("--dark", action="store_true", help="for a dark page")
    look.add_argument("--no-notes", action="store_true", help="without the sentences about the data")


def look_of(args: Namespace, picture: tuple[str, Path | None] | None = None) -> PictureLook:
    """Return what was chosen; ``picture`` is the option that asks for one, and its value.

    Raises:
        UsageError: a choice for a picture that is not drawn.

    """
    title = None if args.title is None else "\n".join(map(printable, args.title.split("\n")))  # an SVG has no others
    look = PictureLook(title=title, size=args.size, dark=args.dark, notes=not args.no_notes)
    if picture is not None and picture[1] is None and look != PictureLook():
        raise UsageError(f"--title, --size, --dark and --no-notes are for the picture of {picture[0]} FILE")
    return look


def _size(text: str) -> tuple[int, int]:
    match = _SIZE.fullmatch(text)
    if match is None or max(int(match[1]), int(match[2])) > _MOST:
        raise argparse.ArgumentTypeError(f"not WIDTHxHEIGHT with 100 to {_MOST} pixels each: {text!r}")
    return int(match[1]), int(match[2])
