"""A series as one change: what git makes of applying one patch after the other."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from prologue.errors import InternalError
from prologue.kernel_tree.diff import FileChange, new_file, parse_changes
from prologue.kernel_tree.git import apply_changes
from prologue.kernel_tree.squash import squash
from tests.support.cases import one_quick
from tests.support.trees import git, repository


def commits(directory: Path, versions: list[str], context: int = 3) -> list[tuple[FileChange, ...]]:
    """The diffs between versions of one file, as git makes them."""
    path = directory / "file"
    path.write_text(versions[0])
    repository(directory)
    series = []
    for version in versions[1:]:
        path.write_text(version)
        series.append(parse_changes(git(directory, "diff", f"-U{context}").encode(), "test"))
        git(directory, "commit", "--quiet", "--all", "--message=next")
    return series


@pytest.mark.parametrize("seed", one_quick(*range(20)))
def test_random_series(tmp_path: Path, seed: int) -> None:
    """Each patch changes lines near to those that the patch before it has changed."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    lines = [f"line {rng.randrange(5)}" for _ in range(60)]  # many of them look alike
    versions = [lines]
    for number in range(4):
        lines = list(lines)
        for _ in range(3):
            place = rng.randrange(20, 30)
            if rng.random() < 0.3:
                del lines[place]
            else:
                lines.insert(place, f"added by {number}")
        versions.append(lines)
    texts = ["".join(f"{line}\n" for line in version) for version in versions]
    series = commits(tmp_path, texts)
    (change,) = squash(series)
    assert apply_changes(change.text, {"file": texts[0].encode()}) == {"file": texts[-1].encode()}
    assert apply_changes(change.text, {"file": texts[-1].encode()}, reverse=True) == {"file": texts[0].encode()}
    assert parse_changes(change.text, "test") == (change,)


def test_far_and_near(tmp_path: Path) -> None:
    """Changes six lines apart share a hunk, as git has it."""
    lines = [f"line {number}\n" for number in range(60)]
    first = "".join([*lines[:10], "new\n", *lines[10:40], "new\n", *lines[40:]])
    second = "".join([*lines[:10], "new\n", *lines[10:16], "newer\n", *lines[16:40], "other\n", *lines[40:]])
    series = commits(tmp_path, ["".join(lines), first, second])
    (change,) = squash(series)
    assert change.text.count(b"\n@@ ") == 2
    whole = parse_changes(git(tmp_path, "diff", "HEAD~2", "HEAD").encode(), "test")[0]
    assert [hunk.lines for hunk in change.hunks] == [hunk.lines for hunk in whole.hunks]
    assert change.header == whole.header


def test_hunks_do_not_share_lines_that_a_step_shows(tmp_path: Path) -> None:
    """A step shows all lines between two places: context grows up to the next hunk's own, no further."""
    lines = [f"line {number}\n" for number in range(60)]
    first = "".join([*lines[:10], "new\n", *lines[11:40], "new\n", *lines[41:]])
    second = first.replace("new\nline 11\n", "newer\nline 11\n")
    series = commits(tmp_path, ["".join(lines), first, second], context=40)
    (change,) = squash(series)
    assert apply_changes(change.text, {"file": "".join(lines).encode()}) == {"file": second.encode()}
    ends = [hunk.old_start + len(hunk.old) for hunk in change.hunks]
    assert all(end <= hunk.old_start for end, hunk in zip(ends, change.hunks[1:], strict=False))
    assert all(line.startswith(b" ") for hunk in change.hunks for line in (*hunk.lines[:3], *hunk.lines[-3:]))


def test_a_file_that_later_patches_change_is_created_as_they_leave_it(tmp_path: Path) -> None:
    texts = ["a\nb\nc\n", "a\nnew\nb\nc\n", "new\nb\nc\nlast\n"]
    series = [(new_file("file", texts[0].encode()),), *commits(tmp_path, texts)]
    assert squash(series) == (new_file("file", texts[-1].encode()),)


def test_what_cannot_be_one(tmp_path: Path) -> None:
    one, two = commits(tmp_path, ["a\nb\nc\n", "a\nnew\nb\nc\n", "a\nnew\nb\nnewer\nc\n"])
    with pytest.raises(InternalError, match=r"^file: a patch of the series does not fit the one before$"):
        squash([two, one])
    with pytest.raises(InternalError, match=r"^file: is created by a patch of the series, and is there before it$"):
        squash([one, (new_file("file", b"a\nb\nc\n"),)])
    with pytest.raises(InternalError, match=r"^file: a patch of the series does not fit the one before$"):
        squash([(new_file("file", b"a\nb\nother\n"),), one])
    assert squash([one]) == one
    assert [change.path for change in squash([one, (new_file("a", b"x\n"),)])] == ["a", "file"]
