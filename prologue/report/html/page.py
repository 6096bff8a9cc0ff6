"""The page of an HTML report: a title, its outcome, and parts; one file that loads nothing else."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import prologue
from prologue.errors import InputError
from prologue.installation import how_to_install
from prologue.words import printable

if TYPE_CHECKING:
    from jinja2 import Environment

Badge = Literal["passed", "failed", "not decided", ""]
"""The badge beside the title; empty for a report that judges nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of text, one for each line; a reader can sort them by a column. ``numbers`` are columns of numbers."""

    kind: ClassVar = "table"
    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[int] = ()
    folded: bool = False  # closed until a reader opens it, and not printed
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulletList:
    """Sentences, one for each bullet; ``plain``: lines of a terminal, with their spaces."""

    kind: ClassVar = "lines"
    title: str
    lines: Sequence[str]
    plain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """An SVG picture for a light page, and the same one for a dark page."""

    kind: ClassVar = "picture"
    title: str
    light: bytes
    dark: bytes
    words: str  # its content, for readers that see no pictures


class FlameBar(NamedTuple):
    """A function under its callers: instructions drawn left of it, and its own with those of its callees."""

    name: str
    depth: int
    left: int
    instructions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Flames:
    """A flame graph, the outermost functions on top."""

    kind: ClassVar = "flames"
    title: str
    bars: Sequence[FlameBar]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingPlace:
    """A finding in its file: place, message, and instructions or values there and as they should be."""

    file: str
    where: str
    message: str
    found: Sequence[str] = ()
    expected: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A root cause: all findings of a rule, those that follow from them, fixes, and the rule's own page."""

    title: str
    severity: str
    count: str
    places: Sequence[FindingPlace]
    left_out: int = 0  # findings that the page has no room for
    also: Sequence[str] = ()
    fixes: Sequence[str] = ()
    page: Sequence[tuple[str, str]] = ()  # headings and texts
    listing: Sequence[str] = ()  # the instructions of the rule's example


@dataclass(frozen=True, slots=True, kw_only=True)
class Causes:
    """Findings by root cause."""

    kind: ClassVar = "causes"
    title: str
    causes: Sequence[Cause]
    none: str = "No findings."


PagePart = Table | BulletList | Picture | Flames | Causes


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A report of a ``subject``, whose path is shortened to a name in the heading; ``facts`` identify it.

    ``command`` are the words that make it again, ``date`` is that of the report, if it is not of the same bytes anyway.
    """

    title: str
    subject: str = ""
    facts: Sequence[tuple[str, str]] = ()
    date: str = ""
    outcome: Badge
    summary: str
    parts: Sequence[PagePart]
    command: Sequence[str]


def require_jinja() -> None:
    """Refuse a machine without Jinja2, before the work.

    Raises:
        InputError: Jinja2 is not installed.

    """
    if find_spec("jinja2") is None:
        raise InputError(f"reports as HTML need Jinja2, which is not installed: {how_to_install('reports', 'jinja2')}")


def render_page(page: Page) -> str:
    """Return the page as HTML; the same page is the same text, which ends without a newline."""
    template = _environment().get_template("page.html.j2")
    text = template.render(
        page=page,
        style=_resource("page.css"),
        script=_resource("page.js"),
        command=shlex.join(page.command),
        version=prologue.__version__,
    )
    # It says that it is UTF-8, and standard output may have another encoding: ASCII is right in both.
    return text.rstrip("\n").encode("ascii", "xmlcharrefreplace").decode("ascii")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    made = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, finalize=_safe,
        loader=FunctionLoader(_resource),
    )  # fmt: skip
    made.filters |= {"base64": _base64, "coded": _coded, "name": _name}
    return made


def _safe(value: object) -> object:
    """Make text printable: names of files and symbols may hold anything; Markup is prologue's own text."""
    return printable(value) if type(value) is str else value


def _coded(text: str) -> str:
    """Return a sentence in which what stands in backticks is code."""
    from markupsafe import Markup, escape

    parts = [escape(part) for part in re.split(r"`+([^`]+)`+", printable(text))]
    return Markup("").join(Markup("<code>{}</code>").format(part) if k % 2 else part for k, part in enumerate(parts))


def _name(subject: str) -> str:
    """Return the last part of a path."""
    return PurePath(subject).name or subject


def _base64(data: bytes) -> str:
    from base64 import b64encode

    return b64encode(data).decode("ascii")


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
