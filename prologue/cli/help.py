"""``prologue help`` and ``schema``: commands, pages of the documentation, which messages name, forms of documents."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import prologue
from prologue.cli.parser import build_parser
from prologue.cli.subcommands import Subcommand, every_parser, fill_all
from prologue.companions import COMPANIONS, why_absent
from prologue.errors import UsageError
from prologue.words import meant

_SUFFIX: Final = ".md"
_HEADING: Final = re.compile(r"(#+) +(.+?) *")


def add_options(command: Subcommand) -> None:
    """Give ``help`` its options."""
    command.add_argument(
        "words", nargs="*", metavar="COMMAND|PAGE",
        help="a command, or a group and its command; or a page, and one of its headings: "
        + ", ".join(name if name in _pages_alone() else name + _SUFFIX for name in page_names()),
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Print a page, or the help of a command, after which argparse ends the process.

    Raises:
        UsageError: a word after a command that is no group; no such page or heading.

    """
    words = list(args.words)
    if words and (words[0].endswith(_SUFFIX) or words[0] in _pages_alone() or why_absent(page=words[0])):
        print("\n".join(_part(words[0].removesuffix(_SUFFIX), " ".join(words[1:]))))
        return 0
    parser = build_parser(words[0] if words else "")
    fill_all(parser)
    for each in every_parser(parser):
        command = each.prog.split()[1:]
        surplus = words[len(command) :]
        if each.get_default("handler") and command == words[: len(command)] and surplus:
            raise UsageError(f"{each.prog} is a command, not a group: {surplus[0]!r} cannot follow")
    parser.parse_args([*words, "--help"])
    return 0


def add_schema_options(command: Subcommand) -> None:
    """Give ``schema`` its options."""
    command.add_argument("name", nargs="?", metavar="DOCUMENT", help="such as verify; without one, all are listed")


def run_schema(args: argparse.Namespace) -> int:
    """Print the schema of a document, or the names of all.

    Raises:
        UsageError: there is no such document, or its companion is absent.

    """
    absent = {document for companion in COMPANIONS if companion.lacks for document in companion.documents}
    schemas = {path.stem: path for path in (_directory() / "schemas").glob("*.json") if path.stem not in absent}
    if args.name is None:
        print("\n".join(sorted(schemas)))
        return 0
    name = args.name.removeprefix("prologue.").partition("/")[0]
    if name not in schemas:
        why = why_absent(document=name) or meant(name, schemas) or "prologue schema lists them"
        raise UsageError(f"no schema {name!r}: {why}")
    print(schemas[name].read_text(encoding="utf-8"), end="")
    return 0


def page_names() -> list[str]:
    """Return the names of the pages, such as ``gate``."""
    absent = {page for companion in COMPANIONS if companion.lacks for page in companion.pages}
    return sorted({path.stem for path in _directory().glob(f"*{_SUFFIX}")} - absent)


def _directory() -> Path:
    """Return where the pages are: a wheel has them in the package."""
    package = Path(prologue.__file__).parent
    return package / "pages" if (package / "pages").is_dir() else package.parent / "docs"


def _pages_alone() -> set[str]:
    """Return the pages that are not called like a command."""
    return set(page_names()) - {name for each in every_parser(build_parser()) for name in each.prog.split()[1:2]}


def _part(name: str, heading: str) -> list[str]:
    """Return the lines of a page, or those from a heading to the next of its rank.

    Raises:
        UsageError: there is no such page or heading.

    """
    if name not in page_names():
        raise UsageError(
            f"no page {name!r}: {why_absent(page=name) or meant(name, page_names()) or 'prologue help help lists them'}"
        )
    lines = (_directory() / f"{name}{_SUFFIX}").read_text(encoding="utf-8").splitlines()
    if not heading:
        return lines
    headings = list(_headings(lines))
    for at, rank, title in headings:
        if title.casefold() == heading.casefold():
            stop = next((other for other, least, _ in headings if other > at and least <= rank), len(lines))
            return "\n".join(lines[at:stop]).rstrip().split("\n")
    titles = [title for _, _, title in headings]
    raise UsageError(f"no heading {heading!r} on page {name}: {meant(heading, titles) or ', '.join(titles)}")


def _headings(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Yield line, rank and text of each heading of a page; what a fence holds is code."""
    fenced = False
    for at, line in enumerate(lines):
        fenced ^= line.startswith("```")
        if not fenced and (match := _HEADING.fullmatch(line)):
            yield at, len(match[1]), match[2]
