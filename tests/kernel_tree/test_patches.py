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
from prologue.kernel_tree.patches import (
    MODES,
    STANDALONE,
    STEPS,
    Mode,
    all_series,
    default_mode,
    load_patch,
    select_lines,
)
from prologue.kernel_tree.source import FTRACE, KCONFIG, OPTION
from tests.support.trees import SOURCES, made_tree

DATA = Path(prologue.__file__).parent / "kernel_tree"
SERIES = all_series()


def test_every_patch_has_a_tree_to_be_tried_on() -> None:
    """Debian has no source of two releases: docs/kernel-evidence.md says what was tried by hand."""
    assert all_series() == ("6.1", "6.6", "6.12", "6.18", "7.2", "7.3")
    assert {*all_series()} - {*SOURCES} == {"6.6", "6.18"}


@pytest.mark.parametrize("series", SERIES)
def test_the_context_of_each_hunk(series: str) -> None:
    """Three lines or more on each side: with one, ``git am`` put hunks of one release into other functions of another.

    In a mail, there are as many after as before: GNU patch looks for a hunk with fewer at the end of the file only.
    """
    modes: tuple[Mode, ...] = ("build", default_mode(series))
    series_of = [load_patch(series, mode=mode) for mode in modes]
    mails = [change for patch in series_of for one in patch.patches for change in one.changes]
    for change in (*mails, *(change for patch in series_of for change in patch.changes if not change.creates)):
        for hunk in change.hunks:
            marks = b"".join(line[:1] for line in hunk.lines)
            before, after = len(marks) - len(marks.lstrip(b" ")), len(marks) - len(marks.rstrip(b" "))
            assert change.creates or before >= min(3, hunk.old_start + before - 1), (change.path, hunk.old_start)
            assert change.creates or after >= 3, (change.path, hunk.old_start)
            assert after >= before or change not in mails, (change.path, hunk.old_start)


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


def test_the_boot_mode_is_the_beginning_of_the_series() -> None:
    assert {*MODES["build"], *MODES["sorttable"]} == set(STEPS)
    for mode in ("build", "sorttable"):
        assert MODES["boot"] == MODES[mode][: len(MODES["boot"])]


@pytest.mark.parametrize("series", SERIES)
def test_the_boot_mode_needs_no_option_and_creates_nothing(series: str) -> None:
    boot, build = load_patch(series, mode="boot"), load_patch(series)
    assert boot.patches == build.patches[: len(boot.patches)]
    assert not any(change.creates for change in boot.changes)
    assert KCONFIG not in {change.path for change in boot.changes}
    assert OPTION.encode() not in boot.diff


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


def test_a_release_or_a_mode_may_have_words_of_its_own() -> None:
    text = "%only 1.9\nold\n%not 1.9 boot\nnew\n%only boot\nboot\n%end\n%\n\nall\n"
    assert select_lines(text, "1.9", "build") == "old\n%\n\nall\n"
    assert select_lines(text, "1.10", "build") == "new\n%\n\nall\n"
    assert select_lines(text, "1.10", "boot") == "boot\n%\n\nall\n"


@pytest.mark.parametrize("text", ["", "subject only\n", "two\nlines\n\ntext\n", "subject\n\nno newline"])
def test_a_damaged_message_is_our_own_failure(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(DATA / "series", tmp_path / "series")
    (tmp_path / "series" / "literals.txt").write_text(text)
    monkeypatch.setattr(patches, "_DATA", tmp_path)
    with pytest.raises(InternalError, match=r"^literals\.txt: is not a subject"):
        load_patch("6.1")


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
    least = {
        "boot": "-EOPNOTSUPP", "build": "arch/arm64/Makefile.postlink", "sorttable": "relocate_kernel() stops",
    }  # fmt: skip
    assert least[mode] in claimed
