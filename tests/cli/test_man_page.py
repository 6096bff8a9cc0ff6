"""The man page and the parsers: every command and option, each where its command is described."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import prologue
from prologue.cli.parser import build_parser
from prologue.cli.subcommands import every_parser, fill_all
from tests.cli.test_commands import COMMANDS, GROUPS


def test_the_man_page_knows_every_command_and_option() -> None:
    page = (Path(prologue.__file__).parent.parent / "docs" / "prologue.1").read_text().replace("\\-", "-")
    actions = [action for parser in every_parser(_whole_grammar()) for action in parser._actions]
    options = {option for action in actions for option in action.option_strings if option not in ("-h", "--help")}
    assert len(options) > 20
    for word in (*COMMANDS, *options):
        assert word in page, word


def test_the_man_page_has_the_options_of_each_command_where_it_describes_it() -> None:
    sections, whole = _man_sections(), _whole_grammar()
    everywhere = [action.option_strings for action in whole._actions]
    for parser in every_parser(whole):
        command = " ".join(parser.prog.split()[1:])
        options = [action.option_strings for action in parser._actions if action.option_strings not in everywhere]
        if not command or not any(options):
            continue
        section = sections[command]
        if "as for trace disasm" in section:
            section += sections["trace disasm"]
        for spellings in filter(None, options):
            assert any(re.search(rf"{spelling}(?![-a-z])", section) for spelling in spellings), (command, spellings)


def _man_sections() -> dict[str, str]:
    """The man page's text by command; an item in an item belongs to the command."""
    page = (Path(prologue.__file__).parent.parent / "docs" / "prologue.1").read_text().replace("\\-", "-")
    page = re.sub(r"^\.RS$.*?^\.RE$", lambda inner: inner[0].replace(".TP", ""), page, flags=re.MULTILINE | re.DOTALL)
    sections: dict[str, str] = {}
    for item in page.partition(".SH COMMANDS")[2].partition(".SH")[0].split("\n.TP\n"):
        words = re.sub(r"^\.[A-Z]+ |\\f.|\"", "", item, flags=re.MULTILINE).split()
        name = " ".join(words[:2] if words and words[0] in GROUPS else words[:1])
        sections[name] = " ".join(words)
    return sections


def _whole_grammar() -> argparse.ArgumentParser:
    parser = build_parser()
    fill_all(parser)
    return parser
