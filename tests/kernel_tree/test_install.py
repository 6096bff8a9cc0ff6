"""Installing changes all of the files or none, and uninstalling gives back exactly what there was."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
from pathlib import Path

import pytest

from prologue.errors import BusyError, OutputError, RefusedError
from prologue.kernel_tree.patches import MODES, Mode, all_series, default_mode, load_patch
from prologue.kernel_tree.source import KCONFIG, KernelTree
from prologue.kernel_tree.tree import install, uninstall
from tests.support.cases import one_quick
from tests.support.tool import Tool
from tests.support.trees import DROPPED_IN, fingerprint, made_tree, repository, untouched

POSTLINK, *_ = DROPPED_IN
EVERY = range(len(load_patch(all_series()[-1]).changes))
CHANGED = range(len(EVERY) - len(DROPPED_IN))
FTRACE = "arch/arm64/kernel/ftrace.c"


def paths(tree: Path) -> list[str]:
    return [change.path for change in KernelTree(tree).patch.changes]


def refused(tree: Path, *names: str, uninstalling: bool = False) -> str:
    """Both a dry run and a real one name exactly these files, and change nothing; the message."""
    before = untouched(tree)
    messages = set()
    for dry_run in (True, False):
        with pytest.raises(RefusedError) as error:
            (uninstall if uninstalling else install)(tree, dry_run=dry_run)
        messages.add(str(error.value))
    assert untouched(tree) == before
    (message,) = messages
    assert [name for name in paths(tree) if f"{name} (" in message] == sorted(names)
    assert "nothing was changed" in message
    return message


@pytest.mark.thorough
@pytest.mark.parametrize("mode", MODES)
def test_there_and_back(every_tree: Path, mode: Mode) -> None:
    series = KernelTree(every_tree).series
    if mode == "sorttable" != default_mode(series):
        pytest.skip("the release has no such mode")
    before, state = fingerprint(every_tree), untouched(every_tree)
    planned = install(every_tree, mode=mode, dry_run=True)
    assert untouched(every_tree) == state
    assert install(every_tree, mode=mode).steps == planned.steps
    assert KernelTree(every_tree).installed == KernelTree(every_tree).mode == mode
    after = fingerprint(every_tree)
    assert {path for _, path in planned.steps} == {name for name in after if after[name] != before.get(name)}
    created = {change.path for change in load_patch(series, mode=mode).changes if change.creates}
    assert after.keys() - before.keys() == created
    assert not any(re.search(r"(?m)^%(only|not|end)\b", (every_tree / name).read_text()) for name in created)

    state = untouched(every_tree)
    assert install(every_tree, mode=mode).steps == ()
    assert uninstall(every_tree, dry_run=True).steps
    assert untouched(every_tree) == state

    uninstall(every_tree)
    assert fingerprint(every_tree) == before
    state = untouched(every_tree)
    assert uninstall(every_tree).steps == ()
    assert untouched(every_tree) == state


@pytest.mark.parametrize(("there", "wanted"), [("boot", "build"), ("build", "boot")], ids=["boot first", "build first"])
def test_one_mode_at_a_time(tree: Path, there: Mode, wanted: str, tool: Tool) -> None:
    install(tree, mode=there)
    state = untouched(tree)
    message = tool("kernel", "install", tree, "--mode", wanted, status=2).err
    assert f"has the patch of mode {there}, not {wanted}; nothing was changed: " in message
    assert f"prologue kernel install --uninstall {tree}" in message
    assert message.count("\n") == 1
    assert untouched(tree) == state


def test_what_is_left_of_the_whole_series_is_no_boot_mode(tree: Path) -> None:
    """Its Kconfig was put back; ftrace.c still has the marker."""
    kconfig = (tree / KCONFIG).read_bytes()
    install(tree)
    (tree / KCONFIG).write_bytes(kconfig)
    assert KernelTree(tree).installed == "build"
    with pytest.raises(RefusedError, match="has the patch of mode build, not boot"):
        install(tree, mode="boot")
    assert [path for _, path in install(tree).steps] == [KCONFIG]


def test_what_is_included_comes_first_and_goes_last(tree: Path) -> None:
    """A build at any moment between, or after a kill, does not miss a file."""
    created = sorted(DROPPED_IN)
    assert [path for _, path in install(tree).steps[: len(created)]] == created
    assert [path for _, path in uninstall(tree).steps[-len(created) :]] == created


def test_modes_stay(tree: Path) -> None:
    changed = [name for name in paths(tree) if name not in DROPPED_IN]
    modes = (0o600, 0o755, 0o640, 0o444, 0o664, 0o644, 0o700, 0o660, 0o666, 0o750)
    for name, mode in zip(changed, modes, strict=True):
        (tree / name).chmod(mode)
    before = fingerprint(tree)
    old = os.umask(0o077)
    try:
        install(tree)
        after = fingerprint(tree)
        assert after[POSTLINK][0] & 0o777 == 0o600  # as any new file of this user
        assert {name: after[name][0] for name in before} == {name: mode for name, (mode, _) in before.items()}
        uninstall(tree)
    finally:
        os.umask(old)
    assert fingerprint(tree) == before


@pytest.mark.thorough
def test_a_repository_around_it_that_ignores_it(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And around temporary files: there, git would leave out each path that it places elsewhere."""
    reference = made_tree(KernelTree(tree).series, tmp_path / "reference")
    install(reference)
    (tmp_path / ".gitignore").write_text("linux/\n")
    repository(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = fingerprint(tree)
    install(tree)
    assert fingerprint(tree) == fingerprint(reference)
    uninstall(tree)
    assert fingerprint(tree) == before


@pytest.mark.thorough
def test_what_git_is_told_elsewhere_does_not_matter(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from a hook of another repository, whose user has settings."""
    other = tmp_path / "other"
    other.mkdir()
    repository(other)
    for name, value in {"GIT_DIR": ".git", "GIT_WORK_TREE": "", "GIT_INDEX_FILE": ".git/index"}.items():
        monkeypatch.setenv(name, str(other / value))
    for name, value in {"COUNT": "1", "KEY_0": "core.autocrlf", "VALUE_0": "true"}.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".gitconfig").write_text("[core]\n autocrlf = true\n[apply]\n whitespace = error-all\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    before, untold = fingerprint(tree), fingerprint(other)
    install(tree)
    assert b"\r" not in (tree / FTRACE).read_bytes()
    uninstall(tree)
    assert fingerprint(tree) == before
    assert fingerprint(other) == untold


def test_by_way_of_a_link_to_the_tree(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = tmp_path / "link"
    link.symlink_to(tree)
    before = fingerprint(tree)
    install(link)
    monkeypatch.chdir(tree)
    assert install(Path()).steps == ()
    uninstall(Path())
    assert fingerprint(tree) == before


@pytest.mark.thorough
def test_hard_links_are_cut(tree: Path, tmp_path: Path) -> None:
    """As ``cp -al`` makes them."""
    copy = tmp_path / "copy"
    shutil.copytree(tree, copy, copy_function=os.link)
    before = fingerprint(tree)
    install(copy)
    assert fingerprint(tree) == before


@pytest.mark.parametrize("number", one_quick(*EVERY))
def test_what_is_left_out_is_added(tree: Path, tmp_path: Path, number: int) -> None:
    """As after a kill, or ``git checkout`` of one file, or ``git clean``."""
    original = made_tree(KernelTree(tree).series, tmp_path / "original")
    install(tree)
    whole = fingerprint(tree)
    name = paths(tree)[number]

    def put_back() -> None:
        if name in DROPPED_IN:
            (tree / name).unlink()
        else:
            shutil.copy(original / name, tree / name)

    put_back()
    outcome = install(tree)
    assert [path for _, path in outcome.steps] == [name]
    assert len(outcome.as_wanted) == len(EVERY) - 1
    assert fingerprint(tree) == whole
    put_back()
    assert len(uninstall(tree).steps) == len(EVERY) - 1
    assert fingerprint(tree) == fingerprint(original)


@pytest.mark.thorough
@pytest.mark.parametrize("number", CHANGED)
def test_a_change_in_the_way_is_named(tree: Path, number: int) -> None:
    change = [change for change in KernelTree(tree).patch.changes if not change.creates][number]
    path, hunk = tree / change.path, change.hunks[-1]
    lines = path.read_bytes().split(b"\n")
    lines.insert(hunk.old_start, b"\t/* somebody was here */")
    path.write_bytes(b"\n".join(lines))
    message = refused(tree, change.path)
    assert "other changes are in the way" in message
    assert f"the lines around {hunk.old_start} " in message


def test_all_that_is_in_the_way_is_named_at_once(tree: Path) -> None:
    (tree / POSTLINK).write_text("# somebody else's\n")
    (tree / FTRACE).unlink()
    (tree / KCONFIG).rename(tree / "elsewhere")
    (tree / KCONFIG).symlink_to(tree / "elsewhere")
    message = refused(tree, POSTLINK, FTRACE, KCONFIG)
    assert f"{POSTLINK} (exists, but is not the one that this prologue installs)" in message
    assert f"{FTRACE} (is missing)" in message
    assert f"{KCONFIG} (is a symbolic link)" in message
    assert uninstall(tree).steps == ()


@pytest.mark.thorough
def test_a_directory_in_the_way(tree: Path, tmp_path: Path) -> None:
    (tree / POSTLINK).mkdir()
    assert f"{POSTLINK} (is not a regular file)" in refused(tree, POSTLINK)
    (tree / POSTLINK).rmdir()
    kernel = tree / "arch/arm64/kernel"
    inside = [name for name in paths(tree) if (tree / name).is_relative_to(kernel)]
    kernel.rename(tmp_path / "kernel")
    assert "is missing, like arch/arm64/kernel" in refused(tree, *inside)
    kernel.symlink_to(tmp_path / "kernel")
    assert "outside of the tree" in refused(tree, *inside)


@pytest.mark.thorough
@pytest.mark.parametrize("names", [["Documentation"], ["tools/testing"], ["Documentation", "tools/testing"]])
def test_a_tree_without_documentation_or_tests(tree: Path, names: list[str]) -> None:
    for name in names:
        shutil.rmtree(tree / name)
    before = fingerprint(tree)
    steps = [path for _, path in install(tree).steps]
    assert sorted(steps) == [path for path in paths(tree) if not path.startswith(tuple(names))]
    assert not any((tree / name).exists() for name in names)
    assert install(tree).steps == ()
    uninstall(tree)
    assert fingerprint(tree) == before


@pytest.mark.thorough
def test_other_changes_stay(tree: Path, tmp_path: Path) -> None:
    """In the same files, made before and after."""
    other = made_tree(KernelTree(tree).series, tmp_path / "other")

    def edit(text: bytes) -> None:
        for path in (root / change.path for root in (tree, other) for change in changed):
            path.write_bytes(text * 3 + path.read_bytes() + text)

    changed = [change for change in KernelTree(tree).patch.changes if not change.creates]
    edit(b"# before\n")
    install(tree)
    edit(b"# after\n")
    assert install(tree).steps == ()
    uninstall(tree)
    assert fingerprint(tree) == fingerprint(other)


@pytest.mark.parametrize("number", one_quick(*EVERY))
def test_edits_of_what_was_put_in_are_not_lost(tree: Path, number: int) -> None:
    """The same goes for what another version of this tool has put in."""
    install(tree)
    change = KernelTree(tree).patch.changes[number]
    path = tree / change.path
    added = [line[1:] for line in change.hunks[0].lines if line[:1] == b"+"]
    path.write_bytes(path.read_bytes().replace(added[-1] + b"\n", added[-1] + b"\n/* mine */\n"))
    for uninstalling in (False, True):
        message = refused(tree, change.path, uninstalling=uninstalling)
        assert "another version of the patch is in, or it was edited since" in message
        assert "kernel install --uninstall" in message
    if change.creates:  # the way out that the message names
        path.unlink()
        install(tree)
        uninstall(tree)


def test_the_first_of_two_is_alone(tree: Path) -> None:
    before = fingerprint(tree)
    fd = os.open(tree, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        with pytest.raises(BusyError, match="another prologue is working on this tree"):
            install(tree)
        install(tree, dry_run=True)
    finally:
        os.close(fd)
    assert fingerprint(tree) == before


@pytest.mark.thorough
def test_the_same_command_goes_on(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever may fail between two renames."""
    reference = made_tree(KernelTree(tree).series, tmp_path / "reference")
    before = fingerprint(tree)
    install(reference)
    real = Path.replace

    def once_less(path: Path, target: Path) -> Path:
        if target.name == "ftrace.c":
            raise OSError(errno.EPERM, os.strerror(errno.EPERM), str(path))
        return real(path, target)

    for command, wanted in ((install, fingerprint(reference)), (uninstall, before)):
        with monkeypatch.context() as patching:
            patching.setattr(Path, "replace", once_less)
            with pytest.raises(OutputError, match="Operation not permitted; run the same command again to finish"):
                command(tree)
        assert list(tree.rglob("*.tmp")) == []
        assert fingerprint(tree) != wanted
        command(tree)
        assert fingerprint(tree) == wanted
