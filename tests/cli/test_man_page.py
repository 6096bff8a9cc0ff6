"""Man pages: one for each command, with all that its ``--help`` has, as roff's readers print them."""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path

import pytest

from prologue.cli.man_pages import write_pages
from prologue.cli.parser import build_parser
from prologue.cli.subcommands import every_parser, fill_all
from tests.support.needs import needs_tools


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SOURCE_DATE_EPOCH", "1700000000")
        return write_pages(tmp_path_factory.mktemp("man1"))


def test_every_command_has_a_page(pages: list[Path]) -> None:
    assert {path.name for path in pages} == {f"{parser.prog.replace(' ', '-')}.1" for parser in whole_grammar()}


@pytest.mark.parametrize(
    "command", [("groff", "-man", "-ww", "-z"), ("mandoc", "-T", "lint", "-W", "warning")], ids=lambda words: words[0]
)
def test_readers_warn_of_nothing(pages: list[Path], command: tuple[str, ...]) -> None:
    needs_tools(command[0])
    done = subprocess.run([*command, *pages], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


@pytest.mark.thorough
def test_a_page_says_what_the_help_says(pages: list[Path]) -> None:
    """Arguments and options with their sentences, and examples as they are pasted: no other quotes, no other minus."""
    needs_tools("mandoc")
    printed = {path.stem: render(path) for path in pages}
    for parser in whole_grammar():
        page = printed[parser.prog.replace(" ", "-")]
        words = " ".join(page.split())
        options = [
            action
            for action in parser._actions
            if not isinstance(action, argparse._SubParsersAction) and action.help != argparse.SUPPRESS
        ]
        for action in options:
            assert " ".join(str(parser._get_formatter()._expand_help(action)).split()) in words
            assert (action.option_strings or [str(action.metavar or action.dest)])[-1] in words
        for line in str(parser.epilog).splitlines() if parser.prog != "prologue" else ():
            assert not line.startswith("  ") or line.rstrip() in page
    assert "4 machine lost 5 nothing wrong" in " ".join(printed["prologue"].split())


def test_the_day_is_that_of_the_source(pages: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert '"2023-11-14"' in pages[0].read_text()
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert re.match(r'\.TH PROLOGUE 1 "" ', write_pages(tmp_path)[0].read_text())


def whole_grammar() -> list[argparse.ArgumentParser]:
    parser = build_parser()
    fill_all(parser)
    return every_parser(parser)


def render(page: Path) -> str:
    done = subprocess.run(["mandoc", "-T", "utf8", "-O", "width=200", page], capture_output=True, text=True, check=True)
    return re.sub(".\b", "", done.stdout)  # bold and italics
