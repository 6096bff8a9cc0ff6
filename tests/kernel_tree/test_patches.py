"""The patches as they are kept."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import prologue
from prologue.errors import InputError, InternalError
from prologue.kernel_tree import patches
from prologue.kernel_tree.git import apply_changes
from prologue.kernel_tree.patches import MODES, STEPS, all_series, load_patch
from prologue.kernel_tree.source import OPTION, KernelTree
from tests.support.trees import DROPPED_IN, SOURCES

ROOT = Path(prologue.__file__).parent
DATA = ROOT / "kernel_tree"


def test_every_patch_has_a_tree_to_be_tried_on() -> None:
    assert all_series() == tuple(SOURCES)  # oldest first


@pytest.mark.parametrize("series", SOURCES)
def test_every_hunk_has_three_lines_of_context(series: str) -> None:
    """With one line, ``git am`` put hunks of one release into other functions of another. Some have more before."""
    patch = load_patch(series)
    for change in (*(change for one in patch.patches for change in one.changes), *patch.changes):
        for hunk in change.hunks:
            marks = b"".join(line[:1] for line in hunk.lines)
            before, after = len(marks) - len(marks.lstrip(b" ")), len(marks) - len(marks.rstrip(b" "))
            assert change.creates or before >= min(3, hunk.old_start + before - 1), (change.path, hunk.old_start)
            assert change.creates or after == 3, (change.path, hunk.old_start)


@pytest.mark.parametrize("series", SOURCES)
def test_what_is_stored_is_what_is_applied(series: str) -> None:
    """Nothing in the directories is forgotten, and every step changes something."""
    patch = load_patch(series)
    directory = DATA / "series" / series
    squashed = {f"squashed-{mode}" for mode in MODES}
    assert {path.stem for path in directory.glob("*.diff")} - squashed <= {one.step for one in patch.patches}
    assert {path.suffix for path in directory.iterdir()} <= {".diff", ".txt"}
    assert {path.stem for path in (DATA / "series").glob("*.txt")} == set(STEPS)
    assert all(one.changes for one in patch.patches)
    without = () if (directory / "sorttable.diff").is_file() else ("sorttable",)
    assert without == (("sorttable",) if series in ("6.1", "6.12") else ())
    assert [one.step for one in patch.patches] == [step for step in STEPS if step not in without]


@pytest.mark.parametrize("series", SOURCES)
def test_the_mov_is_accepted_without_the_option(series: str) -> None:
    """So no module has to be linked again when the option changes: its ftrace would give up otherwise."""
    patches_before = [one for one in load_patch(series).patches if one.step in ("literals", "loop", "accept")]
    added = [line for one in patches_before for change in one.changes for hunk in change.hunks for line in hunk.lines]
    assert any(b"ftrace_callsite_saves_lr(rec)" in line for line in added)
    assert not any(OPTION.encode() in line for line in added)


@pytest.mark.thorough
def test_the_series_does_what_its_sum_does(every_tree: Path) -> None:
    """Patch by patch with git, and all at once as install does it."""
    from prologue.kernel_tree.tree import install

    patch = KernelTree(every_tree).patch
    contents: dict[str, bytes | None] = {
        change.path: (every_tree / change.path).read_bytes() if (every_tree / change.path).exists() else None
        for change in patch.changes
    }
    for one in patch.patches:
        contents |= apply_changes(one.diff, {change.path: contents[change.path] for change in one.changes})
    install(every_tree)
    assert contents == {change.path: (every_tree / change.path).read_bytes() for change in patch.changes}


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of patches to do with as the test likes: there is a series for Linux 1.10, and one for 1.9."""
    shutil.copytree(DATA / "series", tmp_path / "series")
    for name in DROPPED_IN.values():
        (tmp_path / name).write_bytes((DATA / name).read_bytes())
    for series in SOURCES:
        shutil.rmtree(tmp_path / "series" / series)
    for series in ("1.10", "1.9"):
        shutil.copytree(DATA / "series" / all_series()[0], tmp_path / "series" / series)
    monkeypatch.setattr(patches, "_DATA", tmp_path)
    return tmp_path / "series" / "1.9"


def test_patches_are_in_the_order_of_their_releases(kept: Path) -> None:
    assert kept.exists()
    assert all_series() == ("1.9", "1.10")
    with pytest.raises(InputError, match=r"no patch for Linux 2.0, only for 1.9, 1.10$"):
        load_patch("2.0")


def test_a_release_may_have_words_of_its_own(kept: Path) -> None:
    (kept / "marker.txt").write_text("arm64: ftrace: other words\n\nOther text.\n")
    (patch,) = [one for one in load_patch("1.9").patches if one.step == "marker"]
    assert (patch.subject, patch.body) == ("arm64: ftrace: other words", "Other text.\n")
    (patch,) = [one for one in load_patch("1.10").patches if one.step == "marker"]
    assert patch.subject != "arm64: ftrace: other words"


@pytest.mark.parametrize("text", ["", "subject only\n", "two\nlines\n\ntext\n", "subject\n\nno newline"])
def test_a_damaged_message_is_our_own_failure(kept: Path, text: str) -> None:
    (kept / "marker.txt").write_text(text)
    with pytest.raises(InternalError, match=r"^1\.9/marker\.txt: is not a subject"):
        load_patch("1.9")


def test_a_damaged_diff_is_our_own_failure(kept: Path) -> None:
    (kept / "marker.diff").write_bytes((kept / "marker.diff").read_bytes().rsplit(b"\n", 2)[0] + b"\n")
    with pytest.raises(InternalError, match=r"^1\.9/marker\.diff: "):
        load_patch("1.9")
