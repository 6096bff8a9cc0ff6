"""The patches as they are kept."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import prologue
from prologue.errors import InputError, InternalError
from prologue.kernel_tree import patches
from prologue.kernel_tree.git import apply_changes
from prologue.kernel_tree.patches import MODES, STANDALONE, STEPS, Mode, all_series, default_mode, load_patch
from prologue.kernel_tree.source import FTRACE, KCONFIG, OPTION, KernelTree
from tests.support.trees import DROPPED_IN, SOURCES, made_tree

ROOT = Path(prologue.__file__).parent
DATA = ROOT / "kernel_tree"
SERIES = all_series()


def test_every_patch_has_a_tree_to_be_tried_on() -> None:
    """Debian has no source of two releases: docs/kernel-evidence.md says what was tried by hand."""
    assert all_series() == ("6.1", "6.6", "6.12", "6.18", "7.2", "7.3")
    assert {*all_series()} - {*SOURCES} == {"6.6", "6.18"}


@pytest.mark.parametrize("series", SERIES)
def test_every_hunk_has_three_lines_of_context(series: str) -> None:
    """With one line, ``git am`` put hunks of one release into other functions of another. Some have more before."""
    modes: tuple[Mode, ...] = ("build", default_mode(series))
    patches_ = [load_patch(series, mode=mode) for mode in modes]
    steps = [one.changes for patch in patches_ for one in patch.patches]
    for change in (change for changes in (*steps, *(patch.changes for patch in patches_)) for change in changes):
        for hunk in change.hunks:
            marks = b"".join(line[:1] for line in hunk.lines)
            before, after = len(marks) - len(marks.lstrip(b" ")), len(marks) - len(marks.rstrip(b" "))
            assert change.creates or before >= min(3, hunk.old_start + before - 1), (change.path, hunk.old_start)
            assert change.creates or after >= 3, (change.path, hunk.old_start)


@pytest.mark.parametrize("series", SERIES)
def test_a_hunk_of_a_mail_has_as_many_lines_after_as_before(series: str) -> None:
    """GNU patch looks for one with fewer lines after it than before it at the end of the file, and nowhere else."""
    modes: tuple[Mode, ...] = ("build", default_mode(series))
    for one in (one for mode in modes for one in load_patch(series, mode=mode).patches):
        for change in one.changes:
            for hunk in change.hunks:
                marks = b"".join(line[:1] for line in hunk.lines)
                before, after = len(marks) - len(marks.lstrip(b" ")), len(marks) - len(marks.rstrip(b" "))
                assert after >= before, (one.step, change.path, hunk.old_start)


@pytest.mark.parametrize("series", SERIES)
def test_what_is_stored_is_what_is_applied(series: str) -> None:
    """Nothing in the directories is forgotten, and every step changes something."""
    modes: list[Mode] = ["build"]
    if series in ("7.2", "7.3"):
        modes.append("sorttable")
    patches_ = [one for mode in modes for one in load_patch(series, mode=mode).patches]
    directory = DATA / "series" / {"6.18": "7.3", "7.2": "7.3"}.get(series, series)
    of_other_modes = {"sorttable"} if series == "6.18" else set()
    assert {path.stem for path in directory.glob("*.diff")} <= {one.step for one in patches_} | of_other_modes
    assert {path.suffix for path in directory.iterdir()} == {".diff"}
    assert {path.stem for path in (DATA / "series").glob("*.txt")} == set(STEPS) - set(STANDALONE)
    assert all(one.changes for one in patches_)
    absent = {"relocations"} if series in ("6.1", "6.6") else set()
    for mode in modes:
        steps = [one.step for one in load_patch(series, mode=mode).patches]
        assert steps == [step for step in MODES[mode] if step not in absent]
    assert default_mode(series) == modes[-1]


@pytest.mark.parametrize("series", ["6.1", "6.6", "6.12", "6.18"])
def test_no_sorttable_that_can_do_it(series: str) -> None:
    with pytest.raises(InputError, match=f"no mode sorttable for Linux {series}, only for 7.2, 7.3: use --mode build"):
        load_patch(series, mode="sorttable")


@pytest.mark.parametrize("series", SERIES)
def test_the_mov_is_accepted_without_the_option(series: str) -> None:
    """So no module has to be linked again when the option changes: its ftrace would give up otherwise."""
    patches_before = [
        one for one in load_patch(series).patches if one.step in ("literals", "records", "loop", "accept")
    ]
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
    shutil.copytree(DATA / "standalone", tmp_path / "standalone")
    for name in DROPPED_IN.values():
        (tmp_path / name).write_bytes((DATA / name).read_bytes())
    for directory in (tmp_path / "series").glob("[0-9]*"):
        shutil.rmtree(directory)
    for series in ("1.10", "1.9"):
        shutil.copytree(DATA / "series" / SERIES[0], tmp_path / "series" / series)
        shutil.copytree(DATA / "standalone" / SERIES[1], tmp_path / "standalone" / series)
    monkeypatch.setattr(patches, "_DATA", tmp_path)
    return tmp_path / "series" / "1.9"


def test_patches_are_in_the_order_of_their_releases(kept: Path) -> None:
    assert kept.exists()
    assert all_series() == ("1.9", "1.10")
    with pytest.raises(InputError, match=r"no patch for Linux 2.0, only for 1.9, 1.10$"):
        load_patch("2.0")


def test_a_release_may_have_words_of_its_own(kept: Path) -> None:
    text = "%only 1.9\narm64: ftrace: other words\n%not 1.9\narm64: a subject\n%end\n\nOther text.\n"
    (kept.parent / "marker.txt").write_text(text)
    (patch,) = [one for one in load_patch("1.9").patches if one.step == "marker"]
    assert (patch.subject, patch.body) == ("arm64: ftrace: other words", "Other text.\n")
    (patch,) = [one for one in load_patch("1.10").patches if one.step == "marker"]
    assert patch.subject != "arm64: ftrace: other words"


@pytest.mark.parametrize("text", ["", "subject only\n", "two\nlines\n\ntext\n", "subject\n\nno newline"])
def test_a_damaged_message_is_our_own_failure(kept: Path, text: str) -> None:
    (kept.parent / "marker.txt").write_text(text)
    with pytest.raises(InternalError, match=r"^marker\.txt: is not a subject"):
        load_patch("1.9")


def test_a_damaged_diff_is_our_own_failure(kept: Path) -> None:
    (kept / "marker.diff").write_bytes((kept / "marker.diff").read_bytes().rsplit(b"\n", 2)[0] + b"\n")
    with pytest.raises(InternalError, match=r"^1\.9/marker\.diff: "):
        load_patch("1.9")


# What a mail or a file of the series says, and the lines by which it is so: in a file of the tree as it is after that
# patch. "absent" is the sentence that must not be there, as it would be of another mode or release.
CLAIMS: dict[str, tuple[str, bytes]] = {
    "relocate_kernel() stops": ("arch/arm64/kernel/pi/relocate.c", b"else if (!rela->r_info)\n\t\t\tbreak;"),
    "where ``relocate_kernel()`` stops": ("arch/arm64/kernel/pi/relocate.c", b"else if (!rela->r_info)\n\t\t\tbreak;"),
    "scripts/sorttable-arm64.h": ("scripts/sorttable.c", b'#include "sorttable-arm64.h"'),
    "arch/arm64/Makefile.postlink": ("arch/arm64/Makefile.postlink", b"prologue-patch"),
    "the option has no prompt": (KCONFIG, b"config ARM64_FTRACE_BUILDTIME_PROLOGUE\n\tbool\n"),
    "calls no function with a\ncallsite": (FTRACE, b"ftrace_bl_address(*loc, save_lr)"),
    "bit 1: set in the source": (FTRACE, b".flags = FTRACE_PROLOGUE_OFFSETS"),
    "offsets of 32 bits from ``_text``": (FTRACE, b"(unsigned long)_text + *offset++"),
    "ftrace: build-time prologues": (FTRACE, b"ftrace: build-time prologues: %llu"),
    "-EOPNOTSUPP": ("kernel/trace/ftrace.c", b"ret == -EOPNOTSUPP"),
}


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("mode", MODES)
def test_what_a_patch_says_is_true_of_its_tree(series: str, mode: Mode, tmp_path: Path) -> None:
    if mode == "sorttable" != default_mode(series):
        pytest.skip("the release has no such mode")
    patch = load_patch(series, mode=mode)
    tree = made_tree(series, tmp_path / "linux")
    contents = {change.path: None if change.creates else (tree / change.path).read_bytes() for change in patch.changes}
    claimed = set()
    for one in patch.patches:
        contents |= apply_changes(one.diff, {change.path: contents[change.path] for change in one.changes})
        added = [line[1:].decode() for c in one.changes for h in c.hunks for line in h.lines if line[:1] == b"+"]
        text = "\n".join([one.body, *added])
        for claim in (claim for claim in CLAIMS if claim in text):
            path, line = CLAIMS[claim]
            assert line in (contents.get(path) or b""), (one.step, claim)
            claimed.add(claim)
        # An option is named where the tree has it.
        for option in re.findall(r"ARM64_FTRACE_\w+PROLOGUE\b", text):
            assert f"config {option}\n".encode() in (contents[KCONFIG] or b""), (one.step, option)
        assert mode != "sorttable" or not re.search(
            r"(?i)\bprologue patch\b|PROLOGUE=|postlink|\b(a|the) tool\b", text
        ), one.step
        assert mode == "build" or "sorttable-arm64" not in text or mode == "sorttable", one.step
        assert series in ("6.1", "6.6") or "%.ko" not in text, one.step
    assert (
        claimed
        >= {
            "boot": {"-EOPNOTSUPP"},
            "build": {"arch/arm64/Makefile.postlink"},
            "sorttable": {"relocate_kernel() stops"},
        }[mode]
    )
