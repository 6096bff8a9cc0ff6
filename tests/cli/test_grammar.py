"""An argument or option means the same in every command, and each says in --help what it means."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from prologue.cli.parser import build_parser
from prologue.cli.subcommands import every_parser, fill_all
from tests.support.tool import Tool

Table = dict[str, dict[str, set[str]]]
"""Commands by the name of an option, and by its form: `` for a flag, otherwise what its value is called."""


def actions() -> Iterator[tuple[str, argparse.Action]]:
    """Every argument and option with the words of its command; ``prologue`` itself has none."""
    whole = build_parser()
    fill_all(whole)
    for parser in every_parser(whole):
        for action in parser._actions:
            if not isinstance(action, argparse._SubParsersAction):
                yield " ".join(parser.prog.split()[1:]), action


def form_of(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    value = str(action.metavar or ("CHOICE" if action.choices else action.dest.upper()))
    return f"[{value}]" if action.nargs == "?" else value


def parsed() -> Table:
    """Options of the parsers."""
    options: Table = defaultdict(lambda: defaultdict(set))
    for command, action in actions():
        if action.option_strings:
            options[", ".join(action.option_strings)][form_of(action)].add(command)
    return options


def test_an_option_has_one_form_in_all_commands() -> None:
    options = parsed()
    assert len(options) > 100
    assert {name: list(forms) for name, forms in options.items() if len(forms) > 1} == {}


def test_no_word_is_an_option_of_two_names() -> None:
    options = parsed()
    words = [word for name in options for word in name.split(", ")]
    assert len(words) == len(set(words))


def test_help_says_what_each_argument_and_option_means() -> None:
    assert not [(command, action.dest) for command, action in actions() if not (action.help or "").strip()]


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("verify", "vmlinux", "--against", "old", "--against", "older"), "--against"),
        (("verify", "vmlinux", "--json", "-o", "one", "--output", "two"), "-o/--output"),
        (("live", "overlay", "vmlinux", "memory", "-o", "one", "-o", "two"), "-o/--output"),
        (("bench", "run", "vmlinux", "--target", "qemu", "--target", "ssh:board"), "--target"),
    ],
)
def test_a_second_name_does_not_replace_the_first(tool: Tool, words: tuple[str, ...], option: str) -> None:
    assert tool(*words, status=2).err.endswith(f"argument {option}: given more than once, and takes one value\n")


def test_of_choices_and_numbers_the_last_counts() -> None:
    args = build_parser("verify").parse_args(
        ["--color", "never", "verify", "v", "--jobs", "1", "--jobs", "2", "--color", "always"]
    )
    assert (args.jobs, args.color) == (2, "always")


@pytest.mark.parametrize(
    "words",
    [
        ("scan", ""),
        ("verify", "vmlinux", ""),
        ("verify", "vmlinux", "--against", ""),
        ("live", "audit", "vmlinux", ""),
        ("trace", "stats", ""),
        ("bench", "compare", ""),
        ("patch", "vmlinux", "--in-place", "--reverse", ""),
    ],
)
def test_an_empty_word_is_no_file(tool: Tool, words: tuple[str, ...]) -> None:
    """It would be the current directory: `prologue verify "$KO"` would look at other modules than the one meant."""
    assert tool(*words, status=2).err.endswith("is an empty word: is a variable not set?\n")


def test_a_file_is_not_standard_output(tool: Tool) -> None:
    assert "takes a file" in tool("verify", "vmlinux", "--json", "-o", "-", status=2).err
    assert not Path("-").exists()
