"""Pages as ``prologue help`` shows them: those that messages name are there, in a wheel, too."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import prologue
from prologue.cli.help import _pages_alone, page_names
from tests.support.tool import Tool

PACKAGE = Path(prologue.__file__).parent
DOCS = PACKAGE.parent / "docs"


def texts() -> list[str]:
    """Each literal of the tool that is no docstring, with those that are joined to one."""
    texts = []
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts += [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements
        ]
    return texts


def test_pages_that_messages_name_are_shown(tool: Tool) -> None:
    named = {match.groups() for text in texts() for match in re.finditer(r'prologue help ([\w.-]+)(?: "(.*?)")?', text)}
    pages = {(page, heading) for page, heading in named if page in _pages_alone() or page.endswith(".md")}
    assert len(pages) >= 8
    for page, heading in pages:
        assert tool("help", page, *([heading] if heading else [])).out.startswith("#")


def test_no_message_names_a_file_of_the_repository() -> None:
    assert [text for text in texts() if re.search(r"docs/[\w-]+\.md", text)] == []


@pytest.mark.parametrize("name", page_names())
def test_a_page_is_as_it_is(name: str, tool: Tool) -> None:
    assert tool("help", f"{name}.md").out == (DOCS / f"{name}.md").read_text(encoding="utf-8")


def test_a_heading_ends_where_the_next_of_its_rank_begins(tool: Tool) -> None:
    lines = tool("help", "kernel-contract", "Native").out.splitlines()
    assert lines[0] == "## native"
    assert "### Version 2" in lines
    assert "## stock" not in lines


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gates.md"], "no page 'gates': did you mean gate?"),
        (["xyz.md"], "no page 'xyz': prologue help help lists them"),
        (["gate", "State"], "no heading 'State' on page gate: did you mean States?"),
        (["safety", "xyz"], "no heading 'xyz' on page safety: Writing safely"),
    ],
    ids=["page misspelt", "no such page", "heading misspelt", "no such heading"],
)
def test_what_is_not_there(words: list[str], message: str, tool: Tool) -> None:
    assert tool("help", *words, status=2).err.startswith(f"prologue: {message}")
