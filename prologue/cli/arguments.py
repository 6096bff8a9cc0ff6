"""Arguments that more than one subcommand has."""

from __future__ import annotations

import argparse
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prologue.examples import PREFIX
from prologue.outputs import write_text
from prologue.report.terminal import print_report
from prologue.words import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prologue.examples.place import Example
    from prologue.report.pictures import PictureLook

_JSON: Final = "print JSON (schema prologue.{}/1)"
_MOST_PIXELS: Final = 10_000  # each way; a PNG of as many each way takes 400 MB of memory to draw


def number_from(lowest: int, highest: int | None = None) -> Callable[[str], int]:
    """Make an argument type: a whole decimal number from ``lowest``, which is not negative, up to ``highest``."""
    wanted = f"from {lowest} on" if highest is None else f"from {lowest} to {highest}"

    def parse(text: str) -> int:
        if (
            not (text.isascii() and text.isdecimal())
            or int(text) < lowest
            or (highest is not None and int(text) > highest)
        ):
            raise argparse.ArgumentTypeError(f"not a number {wanted}: {text!r}")
        return int(text)

    return parse


def number(option: str, text: str) -> int:
    """Return a number of 64 bits, decimal or with 0x; also negative.

    Raises:
        UsageError: it is something else.

    """
    from prologue.errors import UsageError

    try:
        value = int(text, 0)
    except ValueError:
        raise UsageError(f"{option} {text}: expected a number, as 0x1234") from None
    if abs(value) >> 64:
        raise UsageError(f"{option} {text}: has more than 64 bits")
    return value


def add_jobs(command: argparse.ArgumentParser) -> None:
    """Add ``--jobs`` to a command that reads many files at once."""
    command.add_argument(
        "--jobs", type=number_from(0), default=0, metavar="N", help="processes (default: one for each CPU)"
    )


def add_ssh(command: argparse.ArgumentParser) -> None:
    """Add words for ssh to a command that reads another machine."""
    command.add_argument("--ssh-options", default="", metavar="WORDS", help="for ssh, as in --ssh-options='-p 2222'")


def add_rules(command: argparse.ArgumentParser, group: str) -> None:
    """Add which rules run, and how many findings are printed; ``group`` is an example of one."""
    command.add_argument("--select", action="append", default=[], metavar="RULE",
                         help=f"run only this rule, or group such as {group}; repeatable")  # fmt: skip
    command.add_argument("--ignore", action="append", default=[], metavar="RULE", help="do not run this rule or group")
    add_all(command)


def add_all(command: argparse.ArgumentParser) -> None:
    """Add that no finding is left out of the text."""
    command.add_argument("--all", action="store_true", help="print every finding: all of each rule, and info")


class InPlaceOf(argparse.Action):
    """Store a value that stands for the positional arguments in ``const``: these are not required then."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, option: str | None = None
    ) -> None:
        """Store it."""
        setattr(namespace, self.dest, values)
        for action in self.const:
            action.required = False


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


def add_json(command: argparse.ArgumentParser, schema: str) -> None:
    """Add how a command prints what it did."""
    command.add_argument("--json", action="store_true", help=_JSON.format(schema))


def add_format(command: argparse.ArgumentParser, schema: str, *forms: str) -> None:
    """Add how a report is printed: as text, JSON, or one of ``forms``."""
    choose = command.add_mutually_exclusive_group()
    choose.add_argument("--format", choices=("text", *forms), default="text", help="form of the report (default: text)")
    choose.add_argument("--json", dest="format", action="store_const", const="json", help=_JSON.format(schema))


def add_report(command: argparse.ArgumentParser, schema: str, *forms: str) -> None:
    """Add how a report is written, and where to."""
    add_format(command, schema, *forms)
    command.add_argument("-o", "--output", type=Path, metavar="OUT", help="write the report to this file")


class _Forms(tuple[str, ...]):
    """Forms of a report; each, and JSON, also with the file that it goes to: ``junit=FILE``."""

    __slots__ = ()

    def __contains__(self, value: object) -> bool:
        form, sign, file = str(value).partition("=")
        return (super().__contains__(form) and not sign) or (bool(file) and form in (*self, "json"))


class _AddForm(argparse.Action):
    """Store the form of the report, of which the last counts, or add a report in a file to ``saved``."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, option: str | None = None
    ) -> None:
        """Store or add it."""
        form, sign, file = str(values).partition("=")
        if sign:
            namespace.saved = [*namespace.saved, (form, Path(file))]
        else:
            namespace.format = form


def add_reports(command: argparse.ArgumentParser, schema: str, *forms: str) -> None:
    """Add how several reports of one run are written, and where to."""
    command.set_defaults(saved=[])
    command.add_argument(
        "--format", action=_AddForm, choices=_Forms(("text", *forms)), default="text",
        help="form of the report (default: text); FORM=FILE writes one more to FILE, JSON too; repeatable",
    )  # fmt: skip
    command.add_argument("--json", dest="format", action="store_const", const="json", help=_JSON.format(schema))
    command.add_argument("-o", "--output", type=Path, metavar="OUT", help="write the report to this file")


def is_wanted(args: Namespace, *, passes: bool) -> bool:
    """Return whether a report is made: ``--quiet`` saves text that passes."""
    return bool(not (args.quiet and passes) or args.output or args.format != "text")


def put_report(
    args: Namespace, report: str, closing: str = "", *, passes: bool = True, causes: Iterable[str] = ()
) -> None:
    """Print a report, or write it to the file of ``-o``: then the log gets its ``causes``, and ``closing``.

    Both are left out if it passes quietly.
    """
    if args.output is None:
        print_report(report, args.format)
        return
    write_text(args.output, report + "\n")
    if passes and args.quiet:
        return
    for line in causes:
        print(line, file=sys.stderr)
    if closing:
        print(printable(f"{args.output}: {closing}"), file=sys.stderr)


def require_html(format_: str) -> None:
    """Refuse a report as HTML on a machine without Jinja2, before the work.

    Raises:
        InputError: Jinja2 is not installed.

    """
    if format_ == "html":
        from prologue.report.html.page import require_jinja

        require_jinja()


def shell_words(option: str, text: str) -> list[str]:
    """Split an option's value into words, as a shell would.

    Raises:
        UsageError: a quote is open.

    """
    import shlex

    from prologue.errors import UsageError

    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: {error}") from error


def split_names(names: list[str]) -> tuple[str, ...]:
    """Split the names of an option that may be given several times, each time with several and commas between them."""
    return tuple(part for name in names for part in map(str.strip, name.split(",")) if part)


def selected_names(names: list[str]) -> tuple[str, ...]:
    """Split the names of rules that ``--select`` was given; none means all rules, so an empty list is refused.

    Raises:
        UsageError: the option was given, and names no rule.

    """
    from prologue.errors import UsageError

    selected = split_names(names)
    if names and not selected:
        raise UsageError("--select names no rule: name one (`prologue rules` lists them), or leave the option out")
    return selected


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
    from prologue.errors import UsageError
    from prologue.report.pictures import PictureLook

    title = None if args.title is None else "\n".join(map(printable, args.title.split("\n")))  # an SVG has no others
    look = PictureLook(title=title, size=args.size, dark=args.dark, notes=not args.no_notes)
    if picture is not None and picture[1] is None and look != PictureLook():
        raise UsageError(f"--title, --size, --dark and --no-notes are for the picture of {picture[0]} FILE")
    return look


def _size(text: str) -> tuple[int, int]:
    import re

    match = re.fullmatch(r"([1-9]\d{2,4})x([1-9]\d{2,4})", text, re.ASCII)
    if match is None or max(int(match[1]), int(match[2])) > _MOST_PIXELS:
        raise argparse.ArgumentTypeError(f"not WIDTHxHEIGHT with 100 to {_MOST_PIXELS} pixels each: {text!r}")
    return int(match[1]), int(match[2])
