"""An arm64 machine has no wheels of keystone and drgn: it runs the tests by words that keystone made elsewhere."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.assembler import KEPT, assemble, assemble_now, kept

ROOT = Path(__file__).parent


def test_kept_words_are_keystones() -> None:
    assert kept() == {line: assemble_now(line) for line in kept()}
    assert list(kept()) == sorted(kept())


def test_a_line_that_is_not_kept_says_how_to_keep_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.assembler.kept", dict)
    with pytest.raises(pytest.fail.Exception, match=f"'nop' is not in {KEPT.name}.* -m tests.support.assembler nop "):
        assemble("nop")


def test_no_file_of_tests_needs_what_has_no_wheel_there() -> None:
    """Not even one test of the file would run; and of a file that others import, none of theirs."""
    imported = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in ROOT.rglob("*.py")
        for name in _imported_at_once(ast.parse(path.read_bytes()))
        if name.partition(".")[0] in ("drgn", "keystone")
    }
    assert imported == set()


def _imported_at_once(file: ast.Module) -> list[str]:
    lists = [[alias.name for alias in each.names] for each in file.body if isinstance(each, ast.Import)]
    return [name for names in lists for name in names] + [
        str(each.module) for each in file.body if isinstance(each, ast.ImportFrom)
    ]
