"""Hunks find their place or none; git alone would take one that only looks like it."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.errors import InternalError
from prologue.kernel_tree.diff import NoPlaceError, locate, new_file, parse_changes
from prologue.kernel_tree.git import apply_changes
from tests.support.trees import git

# The second hunk's context is in the file three times.
BEFORE = b"start\nfirst\nend\n" + b"{\n}\n" * 3 + b"last\n"
AFTER = b"start\nfirst\nnew\nend\n{\n}\n{\nadded\n}\n{\n}\nlast\n"
DIFF = b"""diff --git a/file b/file
index 1111111..2222222 100644
--- a/file
+++ b/file
@@ -2,2 +2,3 @@ start
 first
+new
 end
@@ -6,2 +7,3 @@ start
 {
+added
 }
"""
(CHANGE,) = parse_changes(DIFF, "test")


def applied(content: bytes, *, reverse: bool = False) -> bytes | None:
    located = locate(CHANGE, content, reverse=reverse)
    return apply_changes(located.text, {"file": content}, reverse=reverse)["file"]


def test_there_and_back() -> None:
    assert CHANGE.text == DIFF
    assert applied(BEFORE) == AFTER
    assert applied(AFTER, reverse=True) == BEFORE


@pytest.mark.parametrize("lines", [1, 2, 3, 50])
def test_moved_lines_take_their_hunks_with_them(lines: int) -> None:
    more = b"// more\n" * lines
    assert applied(more + BEFORE) == more + AFTER
    assert applied(more + AFTER, reverse=True) == more + BEFORE


def test_git_alone_takes_the_nearest_place() -> None:
    """Why there is a ``locate``: two lines more at the top, and git applies the hunk to the pair of lines before."""
    content = b"// more\n" * 2 + BEFORE
    assert apply_changes(DIFF, {"file": content})["file"] not in (b"// more\n" * 2 + AFTER, None)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", 2),
        (BEFORE.replace(b"end", b"END"), 2),
        (BEFORE.replace(b"end\n", b"end\n// between\n"), 6),  # which of the three is it now?
        (BEFORE.replace(b"{\n}\n" * 3, b""), 6),
        (BEFORE.replace(b"first\nend\n", b"") + b"first\nend\n", 6),  # the second one would come first
        (BEFORE + BEFORE.replace(b"end", b"END"), None),
    ],
)
def test_what_does_not_fit_is_named(content: bytes, line: int | None) -> None:
    if line is None:
        assert locate(CHANGE, content) == CHANGE
        return
    with pytest.raises(NoPlaceError) as refused:
        locate(CHANGE, content)
    assert refused.value.hunk.old_start == line


def test_a_new_file_is_what_git_makes_of_it(tmp_path: Path) -> None:
    content = b"one\n\n-- \nthree\n"
    change = new_file("some/file", content)
    assert change.creates
    assert change.created == content
    assert apply_changes(change.text, {"some/file": None}) == {"some/file": content}
    assert apply_changes(change.text, {"some/file": content}, reverse=True) == {"some/file": None}
    assert git(tmp_path, "hash-object", "--stdin", given=content).startswith(change.header[2].decode()[-7:])
    assert parse_changes(change.text, "test") == (change,)


@pytest.mark.parametrize(
    ("diff", "message"),
    [
        (b"hello\n", "is not a diff"),
        (DIFF[:-3], "a hunk is incomplete"),
        (DIFF + b"hello\n", "is not a diff"),
        (DIFF.replace(b"b/file\nindex", b"b/other\nindex"), "renames"),
    ],
)
def test_a_damaged_diff(diff: bytes, message: str) -> None:
    with pytest.raises(InternalError, match=message):
        parse_changes(diff, "test")


def test_what_git_refuses() -> None:
    with pytest.raises(InternalError, match=r"^git apply: .*file"):
        apply_changes(DIFF, {"file": b"other\n"})
