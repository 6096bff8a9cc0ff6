"""Commands that the documentation and --help show work when they are pasted."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import prologue
from prologue.cli.parser import build_parser
from prologue.cli.subcommands import fill_all

ROOT = Path(prologue.__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "docs" / "protocols" / "README.md"]
PIPES = ("|", "&&", ";", "&")


def blocks(text: str) -> str:
    """Code blocks: lines that are indented after an empty one, or fenced."""
    taken, fenced, before = [], False, ""
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced or (line.startswith("    ") and (not before or before.startswith("    "))):
            taken.append(line)
        before = line.strip() and line
    return "\n".join(taken)


def commands(text: str) -> Iterator[list[str]]:
    """The arguments of each prologue command that a shell would run."""
    text = re.sub(r"\\\n\s*", "", text)
    text = re.sub(r'"?\$\([^()]*\)"?', "output", text).replace("--commit COMMIT", f"--commit {'0' * 40}")
    for line in text.splitlines():
        if not re.match(r"\s*(\$ )?prologue |.*\| prologue ", line):
            continue
        lexer = shlex.shlex(line.strip().removeprefix("$ "), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = [*lexer, ";"]
        while ";" in words:
            end = next(at for at, word in enumerate(words) if word in PIPES)
            command, words = words[:end], words[end + 1 :]
            into = next((at for at, word in enumerate(command) if word in (">", ">>")), len(command))
            if command[:1] == ["prologue"]:
                yield command[1:into]


def parses(arguments: list[str]) -> bool:
    try:
        build_parser(arguments[0]).parse_args(arguments)
    except SystemExit as done:
        return done.code == 0
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_can_be_pasted(page: Path) -> None:
    found = list(commands(blocks(page.read_text())))
    assert len(found) >= (20 if page.name == "commands.md" else 0)
    assert not [" ".join(arguments) for arguments in found if not parses(arguments)]


def test_every_command_is_on_the_page_of_all_commands() -> None:
    parser = build_parser()
    fill_all(parser)
    names = [each.prog for each in all_parsers(parser) if each.get_default("handler")]
    page = blocks((ROOT / "docs" / "commands.md").read_text())
    shown = [f"{' '.join(['prologue', *arguments])} " for arguments in commands(page)]
    assert len(names) > 30
    assert not [name for name in names if not any(line.startswith(f"{name} ") for line in shown)]


@pytest.mark.thorough
def test_the_commands_of_help_can_be_pasted() -> None:
    parser = build_parser()
    fill_all(parser)
    found = [arguments for each in all_parsers(parser) for arguments in commands(each.epilog or "")]
    assert len(found) > 80
    assert not [" ".join(arguments) for arguments in found if not parses(arguments)]


def test_an_explanation_without_a_sign_is_taken_for_arguments() -> None:
    assert not parses(next(commands("prologue image vmlinux -o Image   the flat Image")))
    assert parses(next(commands("prologue image vmlinux -o Image   # the flat Image")))


def all_parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from all_parsers(command)
