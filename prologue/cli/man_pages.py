"""A man page for each command, from the parsers that ``--help`` is from: ``python -m prologue.cli.man_pages DIR``."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from prologue import __version__
from prologue.cli.parser import GROUPS, build_parser
from prologue.cli.subcommands import every_parser, fill_all
from prologue.words import counted

# What roff prints as something else: a hyphen for a minus, typographic quotes, which no shell takes.
_CHARACTERS: Final = str.maketrans(
    {"\\": r"\e", "-": r"\-", "'": r"\(aq", '"': r"\(dq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}
)
_OPTION: Final = re.compile(r"(?<![\w/.-])(--?[A-Za-z][\w-]*)")
_VALUE: Final = re.compile(r"\b([A-Z][A-Z0-9_]*(?:x[A-Z]+)?)\b")
_EXIT_CODE: Final = re.compile(r"(\d+) ([^;]+)")
_SPACE_IN_BRACKETS: Final = re.compile(r" (?=[^\[\]]*\])")
_TITLES: Final = {"positional arguments": "arguments", "in every command": "options of every command"}


def man_pages() -> dict[str, str]:
    """Return the text of each page by its name, such as ``prologue-live-audit``.

    ``SOURCE_DATE_EPOCH`` in the environment is its date; without it, a page has none, and is always the same.

    Raises:
        UsageError: a library is not installed that a command needs, also for its help.

    """
    root = build_parser()
    fill_all(root, complete=True)
    parsers = every_parser(root)
    return {_name(parser): "\n".join(_page(root, parser, parsers)) + "\n" for parser in parsers}


def _name(parser: argparse.ArgumentParser) -> str:
    return parser.prog.replace(" ", "-")


def _page(
    root: argparse.ArgumentParser, parser: argparse.ArgumentParser, parsers: list[argparse.ArgumentParser]
) -> Iterator[str]:
    sentence = str(parser.description)
    seconds = os.environ.get("SOURCE_DATE_EPOCH")  # https://reproducible-builds.org/specs/source-date-epoch/
    day = datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%d") if seconds else ""
    yield f'.TH {_plain(_name(parser).upper())} 1 "{day}" "prologue {__version__}" "User commands"'
    yield from (".nh", ".ad l")  # a hyphen at the end of a line could be one of the name
    yield from (".SH NAME", rf"{_plain(_name(parser))} \- {_text(sentence[0].lower() + sentence[1:].rstrip('.'))}")
    yield from (".SH SYNOPSIS", _synopsis(parser), ".SH DESCRIPTION", _text(sentence))
    for group in parser._action_groups:
        yield from _group(group, parser)
    if parser is not root:
        yield from _epilog(str(parser.epilog))
    yield ".SH EXIT STATUS"
    for code, meaning in _EXIT_CODE.findall(str(root.epilog).replace("\n", " ")):
        yield from (".TP", rf"\fB{code}\fP", _text(meaning))
    yield from (".SH SEE ALSO", ",\n".join(rf"\fB{_plain(_name(other))}\fP(1)" for other in _near(parser, parsers)))


def _near(parser: argparse.ArgumentParser, parsers: list[argparse.ArgumentParser]) -> list[argparse.ArgumentParser]:
    """Return the commands above a command, those beside it in its group, and those below it."""
    above, _, _ = parser.prog.rpartition(" ")
    beside = "" if above in ("", "prologue") else above
    return [
        other
        for other in parsers
        if other is not parser
        and (other.prog in ("prologue", above) or other.prog.rpartition(" ")[0] in filter(None, (parser.prog, beside)))
    ]


def _synopsis(parser: argparse.ArgumentParser) -> str:
    """Return argparse's usage without the options of every command; lines break between brackets only."""
    parser.color = False  # type: ignore[attr-defined]  # from Python 3.14 on
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split()).removeprefix(parser.prog)
    if parser.prog != "prologue":
        usage = usage.replace(" [-h]", "").replace(" [--color {auto,always,never}] [-q | -v] [--debug]", "")
    words = "".join(
        rf"\fB{_plain(part)}\fP" if n % 2 else _marked(part, _VALUE, "I")
        for n, part in enumerate(_OPTION.split(usage.strip()))
    )
    return rf"\fB{_plain(parser.prog)}\fP " + _SPACE_IN_BRACKETS.sub(r"\\ ", words)


def _group(group: argparse._ArgumentGroup, parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield a section for a group of arguments, options or commands, if it has any."""
    actions = [action for action in group._group_actions if action.help != argparse.SUPPRESS]
    if not actions:
        return
    title = str(group.title)
    yield f".SH {_TITLES.get(title, title).upper()}"
    for action in actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from _commands(parser, action)
        else:
            yield from (".TP", _form(action, parser), _text(parser._get_formatter()._expand_help(action)))


def _form(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    """Write an argument or option with its value, as a usage has them."""
    formatter = parser._get_formatter()
    if not action.option_strings:
        return rf"\fI{_plain(str(action.metavar or action.dest))}\fP"
    names = ", ".join(rf"\fB{_plain(option)}\fP" for option in action.option_strings)
    value = "" if action.nargs == 0 else formatter._format_args(action, action.dest.upper())
    return names + (rf" \fI{_plain(value)}\fP" if value else "")


def _commands(
    parser: argparse.ArgumentParser, action: argparse._SubParsersAction[argparse.ArgumentParser]
) -> Iterator[str]:
    """Yield a group's commands with their pages; those of ``prologue`` itself in the groups of its help."""
    helps = {choice.dest: str(choice.help) for choice in action._choices_actions}
    for title, group, start in GROUPS if parser.prog == "prologue" else (("", tuple(helps), ""),):
        names = [name for name in group if name in helps]
        if title and names:
            yield from (f".SS {_plain(title)}", rf"Start here: \fB{_plain(start)}\fP")
        for name in names:
            yield from (".TP", rf"\fB{_plain(_name(action.choices[name]))}\fP(1)", _text(helps[name]))


def _epilog(epilog: str) -> Iterator[str]:
    """Yield the end of a help: a line with a colon begins a section, lines with a margin stay as they are."""
    verbatim = False
    for line in epilog.rstrip().splitlines():
        if verbatim != line.startswith("  "):
            yield from (".RE", ".fi") if verbatim else (".nf", ".RS 4")
            verbatim = not verbatim
        if verbatim:
            yield _plain(line[2:])
        elif line.endswith(":"):
            yield f".SH {_plain(line[:-1].upper())}"
        elif line:
            yield from (".PP", _text(line))
    if verbatim:
        yield from (".RE", ".fi")


def _text(text: str) -> str:
    """Write text with its options in bold."""
    return _marked(text, _OPTION, "B")


def _marked(text: str, words: re.Pattern[str], font: str) -> str:
    """Write text with some of its words in another font; ``words`` has one group."""
    parts = enumerate(words.split(text))
    return "".join(rf"\f{font}{_plain(part)}\fP" if n % 2 else _plain(part) for n, part in parts)


def _plain(text: str) -> str:
    r"""Write text as it is; ``\&`` keeps a dot from beginning a request."""
    return (r"\&" if text.startswith(".") else "") + text.translate(_CHARACTERS)


def write_pages(directory: Path) -> list[Path]:
    """Write the pages into a directory, and return them."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in man_pages().items():
        path = directory / f"{name}.1"
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def main() -> int:
    """Write the pages into the directory that is named."""
    parser = argparse.ArgumentParser(prog="python -m prologue.cli.man_pages", description=__doc__)
    parser.add_argument("directory", type=Path, metavar="DIR")
    directory = parser.parse_args().directory
    print(f"{directory}: {counted(len(write_pages(directory)), 'man page')}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
