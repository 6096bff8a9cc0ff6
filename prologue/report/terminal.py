"""A terminal's additions to plain text: colour, lines that fit, and notes on standard error."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final, Literal, TextIO

from prologue.words import printable

Color = Literal["auto", "always", "never"]
COLORS: Final[tuple[Color, ...]] = ("auto", "always", "never")

# SGR codes of ECMA-48: bold red, red, yellow, cyan.
_CODES: Final = {"fatal": "1;31", "error": "31", "warn": "33", "info": "36"}
_SEVERITY: Final = re.compile(r"(?<=\()(?:fatal|error|warn|info)(?=\))|(?<= )\d[\d,]* (?:fatal|errors?|warnings?)\b")
_LEAST: Final = 40  # columns; in fewer, wrapped lines are harder to read than long ones

_color: Color = "auto"
_quiet = False


def set_terminal(*, color: Color, quiet: bool) -> None:
    """Set what ``--color`` and ``--quiet`` say, for all that is printed from now on."""
    global _color, _quiet
    _color, _quiet = color, quiet


def is_quiet() -> bool:
    """Return whether ``--quiet`` was given."""
    return _quiet


def has_color(stream: TextIO) -> bool:
    """Return whether a stream gets colour: a terminal does, unless NO_COLOR is set and not empty (no-color.org)."""
    if _color != "auto":
        return _color == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def note(text: str) -> None:
    """Print a note on standard error, unless ``--quiet`` was given."""
    if not _quiet:
        _put("note", text)


def warn(text: str) -> None:
    """Print a warning on standard error, always: without it the output may be taken for more than it is."""
    _put("warning", text)


def print_report(report: str, form: str) -> None:
    """Print a report on standard output; text with its severities in colour, and wrapped if that is a terminal."""
    if form == "text" and sys.stdout.isatty():
        import shutil

        width = shutil.get_terminal_size().columns
        report = "\n".join(_wrapped(line, width) for line in report.split("\n"))
    print(_SEVERITY.sub(_painted, report) if form == "text" and has_color(sys.stdout) else report)


def shows_progress() -> bool:
    """Return whether a bar is drawn: on a terminal, with rich installed, unless ``--quiet`` was given."""
    return not _quiet and sys.stderr.isatty() and find_spec("rich") is not None


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show what is being done and for how long, on standard error if that is a terminal, until the block ends."""
    if not shows_progress():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        bar.add_task(what, total=None)
        yield


def shows_both() -> bool:
    """Return whether one terminal shows standard output and standard error."""
    return sys.stdout.isatty() and sys.stderr.isatty()


def _put(kind: Literal["note", "warning"], text: str) -> None:
    sys.stdout.flush()
    code = {"note": "36", "warning": "33"}[kind]
    head = f"\x1b[{code}m{kind}:\x1b[0m" if has_color(sys.stderr) else f"{kind}:"
    print(f"{head} {printable(text)}", file=sys.stderr)


def _wrapped(line: str, width: int) -> str:
    if width < _LEAST or len(line) <= width:
        return line
    import textwrap  # the build step must start fast, and has no report

    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _painted(match: re.Match[str]) -> str:
    word = match[0].rpartition(" ")[2]
    severity = {"warning": "warn", "warnings": "warn", "errors": "error"}.get(word, word)
    return f"\x1b[{_CODES[severity]}m{match[0]}\x1b[0m"
