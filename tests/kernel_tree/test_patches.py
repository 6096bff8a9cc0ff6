"""The patches as they are kept and as they are posted."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

import prologue
from prologue.errors import InputError, InternalError
from prologue.kernel_tree import patches
from prologue.kernel_tree.diff import parse_changes
from prologue.kernel_tree.patches import DROPPED_IN, all_series, load_patch
from tests.support.trees import SOURCES, fingerprint, git, repository

ROOT = Path(prologue.__file__).parent
DATA = ROOT / "kernel_tree"


def test_every_patch_has_a_tree_to_be_tried_on() -> None:
    assert all_series() == tuple(SOURCES)  # oldest first


def test_everything_is_packaged() -> None:
    settings = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())
    patterns = settings["tool"]["setuptools"]["package-data"]["prologue"]
    data = [path for path in DATA.iterdir() if path.is_file() and path.suffix != ".py"]
    assert len(data) == len(SOURCES) + len(DROPPED_IN)
    for path in data:
        assert any(fnmatch(f"kernel_tree/{path.name}", pattern) for pattern in patterns), path


@pytest.mark.parametrize("series", SOURCES)
def test_every_hunk_has_three_lines_of_context(series: str) -> None:
    """With one line, ``git am`` put hunks of one release into other functions of another."""
    for change in load_patch(series).changes:
        for hunk in change.hunks:
            marks = b"".join(line[:1] for line in hunk.lines)
            before, after = len(marks) - len(marks.lstrip(b" ")), len(marks) - len(marks.rstrip(b" "))
            assert change.creates or before == min(3, hunk.old_start + before - 1), (change.path, hunk.old_start)
            assert change.creates or after == 3, (change.path, hunk.old_start)


@pytest.mark.parametrize("series", SOURCES)
def test_the_mail_holds_what_is_kept(series: str) -> None:
    stored = (DATA / f"{series}.patch").read_bytes()
    patch = load_patch(series)
    mail = patch.mail
    assert mail.startswith(b"From 0000000000")
    assert stored[: stored.index(b"\n---\n")] in mail
    assert mail.endswith(patch.signature)
    diff = mail[mail.index(b"\ndiff --git ") + 1 : len(mail) - len(patch.signature)]
    changes = {change.path: change for change in parse_changes(diff, series)}
    assert list(changes) == sorted(changes)
    for path, name in DROPPED_IN.items():
        assert changes.pop(path).created == (DATA / name).read_bytes()
    begin = stored.index(b"\ndiff --git ") + 1
    kept = parse_changes(stored[begin : len(stored) - len(patch.signature)], series)
    assert {change.path: change for change in kept} == changes
    assert b"%d files changed" % (len(changes) + len(DROPPED_IN)) in mail
    assert mail.count(b"files changed") == 1
    assert mail.count(b"create mode 100644") == len(DROPPED_IN)


def test_git_am_does_the_same(every_tree: Path, tmp_path: Path) -> None:
    from prologue.kernel_tree.tree import install

    other = tmp_path / "other"
    other.mkdir()
    for path in every_tree.rglob("*"):
        copy = other / path.relative_to(every_tree)
        copy.mkdir() if path.is_dir() else copy.write_bytes(path.read_bytes())
    repository(other)
    outcome = install(every_tree)
    git(other, "am", "--quiet", given=outcome.tree.patch.mail)
    assert fingerprint(other) == fingerprint(every_tree)
    assert git(other, "status", "--porcelain") == ""


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of patches to do with as the test likes: there is one for Linux 1.10, and one for 1.9."""
    for name in DROPPED_IN.values():
        (tmp_path / name).write_bytes((DATA / name).read_bytes())
    for series in ("1.10", "1.9"):
        (tmp_path / f"{series}.patch").write_bytes((DATA / f"{all_series()[0]}.patch").read_bytes())
    monkeypatch.setattr(patches, "_DATA", tmp_path)
    return tmp_path / "1.9.patch"


def test_patches_are_in_the_order_of_their_releases(kept: Path) -> None:
    assert kept.exists()
    assert all_series() == ("1.9", "1.10")
    with pytest.raises(InputError, match=r"no patch for Linux 2.0, only for 1.9, 1.10$"):
        load_patch("2.0")


def test_notes_stay_and_counts_are_made_anew(kept: Path) -> None:
    text = kept.read_bytes().replace(b"\n---\n", b"\n---\nv2: says 1 file changed\n\n", 1)
    kept.write_bytes(b"From 1234 Mon Sep 17 00:00:00 2001\n" + text)
    mail = load_patch("1.9").mail
    assert mail.startswith(b"From 1234 Mon")
    assert mail.count(b"\nFrom ") == 0
    assert b"\n---\nv2: says 1 file changed\n\n arch/arm64/Kconfig " in mail
    assert mail.count(b"files changed, ") == 1


def test_a_patch_without_signature(kept: Path) -> None:
    before = load_patch("1.9")
    assert before.signature
    kept.write_bytes(kept.read_bytes().removesuffix(before.signature))
    after = load_patch("1.9")
    assert (after.signature, after.changes) == (b"", before.changes)


@pytest.mark.parametrize("change", [lambda text: b"", lambda text: text.replace(b"\n---\n", b"\n\n", 1)])
def test_a_damaged_patch_is_our_own_failure(kept: Path, change: object) -> None:
    assert callable(change)
    kept.write_bytes(change(kept.read_bytes()))
    with pytest.raises(InternalError, match=r"^1\.9\.patch: "):
        load_patch("1.9")
