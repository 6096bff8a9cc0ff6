"""The patches on the sources that they are for, as Debian has them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from prologue.errors import RefusedError
from prologue.kernel_tree.diff import FileChange
from prologue.kernel_tree.mail import patch_mails
from prologue.kernel_tree.patches import MODES, Mode, default_mode, load_patch
from prologue.kernel_tree.source import KernelTree
from prologue.kernel_tree.tree import install, uninstall
from tests.kernel_tree.test_mail import TESTER, mbox
from tests.support.needs import needs_tools
from tests.support.trees import SOURCES, fingerprint, git, needs_real_tree, repository

pytestmark = pytest.mark.kernel
ALIKE = {"7.2", "7.3"}  # what the series changes is the same in both


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    """The sources are unpacked with the modes that packages have, and git makes files anew: with the umask."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(scope="module", params=SOURCES)
def source(request: pytest.FixtureRequest) -> Path:
    return needs_real_tree(request.param)


@pytest.fixture
def real(source: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(source, tmp_path / "linux"))


def modes_of(tree: Path) -> list[Mode]:
    """Each mode that there is for the tree's release."""
    series = KernelTree(tree).series
    return [mode for mode in MODES if mode != "sorttable" or default_mode(series) == mode]


def test_there_and_back(real: Path, source: Path) -> None:
    for mode in modes_of(source):
        one_mode_there_and_back(real, source, mode)


def one_mode_there_and_back(real: Path, source: Path, mode: Mode) -> None:
    before = fingerprint(real)
    outcome = install(real, mode=mode)
    assert len(outcome.steps) == len(outcome.tree.patch.changes)
    assert install(real, mode=mode).steps == ()
    uninstall(real)
    assert fingerprint(real) == fingerprint(source) == before


def test_each_hunk_has_one_place(real: Path) -> None:
    """If its place was edited, it must not find another one."""
    for mode in modes_of(real):
        for installed in (False, True):
            for file in KernelTree(real, mode).files:
                for hunk in () if file.change.creates else file.change.hunks:
                    lines = b"".join(b"%b\n" % line for line in (hunk.new if installed else hunk.old))
                    assert (b"\n" + (file.content or b"")).count(b"\n" + lines) == 1, (file.path, hunk.old_start)
            install(real, mode=mode)
        uninstall(real)


def test_git_am_does_the_same(real: Path, tmp_path: Path) -> None:
    other = repository(Path(shutil.copytree(real, tmp_path / "other")))
    outcome = install(real, mode=default_mode(KernelTree(real).series))
    git(other, "am", "--quiet", given=mbox(outcome.tree.patch))
    assert fingerprint(other) == fingerprint(real)


@pytest.mark.parametrize("other", SOURCES)
def test_another_release_is_refused(real: Path, source: Path, other: str, tmp_path: Path) -> None:
    """``git am`` alone knows a wrong tree by its lines only; ``install`` looks for the patch of the tree's release."""
    series = KernelTree(source).series
    if other == series or {other, series} <= ALIKE:
        pytest.skip("the right release, or one with the same lines")
    before = fingerprint(real)
    repository(real)
    with pytest.raises(AssertionError, match=r"patch does not apply|does not exist in index"):
        git(real, "am", "--quiet", given=mbox(load_patch(other)))
    git(real, "am", "--abort")
    assert fingerprint(real) == before
    version, _, patchlevel = other.partition(".")
    makefile = (real / "Makefile").read_text()
    makefile = re.sub(r"(?m)^VERSION = .*$", f"VERSION = {version}", makefile)
    (real / "Makefile").write_text(re.sub(r"(?m)^PATCHLEVEL = .*$", f"PATCHLEVEL = {patchlevel}", makefile))
    claimed = fingerprint(real)
    assert KernelTree(real).series == other
    for dry_run in (True, False):
        with pytest.raises(RefusedError, match="other changes are in the way"):
            install(real, dry_run=dry_run)
    assert fingerprint(real) == claimed


@pytest.mark.parametrize("other", sorted(ALIKE))
def test_a_release_with_the_same_lines(real: Path, source: Path, other: str, tmp_path: Path) -> None:
    if KernelTree(source).series not in ALIKE:
        pytest.skip("has other lines")
    tree = repository(Path(shutil.copytree(real, tmp_path / "other")))
    git(tree, "am", "--quiet", given=mbox(load_patch(other)))
    install(real)
    assert fingerprint(tree) == fingerprint(real)


def test_only_line_numbers_change(real: Path) -> None:
    """The stored ones are of one stable release; Debian moves on (6.12.117 has 31 lines more above one hunk)."""
    tree = KernelTree(real)
    assert [unnumbered(file.change) for file in tree.files] == [unnumbered(change) for change in tree.patch.changes]


def unnumbered(change: FileChange) -> FileChange:
    return replace(change, hunks=tuple(replace(hunk, old_start=0, new_start=0) for hunk in change.hunks))


@pytest.mark.parametrize("lines", [1, 5, 17, 60])
def test_another_stable_release(real: Path, source: Path, lines: int) -> None:
    """Its lines stand elsewhere; the hunks go where they belong, not to what looks alike and is nearer."""
    more = b"# more\n" * lines
    tree = KernelTree(real)
    changed = [change.path for change in tree.patch.changes if not change.creates]
    for name in changed:
        (real / name).write_bytes(more + (real / name).read_bytes())
    moved = fingerprint(real)
    install(real)
    installed = {name: (real / name).read_bytes() for name in changed}
    uninstall(real)
    assert fingerprint(real) == moved
    shutil.rmtree(real)
    shutil.copytree(source, real)
    install(real)
    assert installed == {name: more + (real / name).read_bytes() for name in changed}


def test_checkpatch_has_nothing_to_say(source: Path, tmp_path: Path) -> None:
    needs_tools("perl")
    series = KernelTree(source).series
    modes: set[Mode] = {"build", default_mode(series)}
    for mail in (mail for mode in modes for mail in patch_mails(load_patch(series, mode=mode), TESTER)):
        # MAINTAINERS names all of arch/arm64 and Documentation/trace: no new entry for files there. Through a pipe: a
        # file that git knows is checked as source, not as a patch.
        ignored = ["--ignore", "FILE_PATH_CHANGES"] if b"new file mode" in mail.text else []
        # A program of the build machine: its integers are <stdint.h>'s, and <elf.h> has the capitals.
        if b"+++ b/scripts/sorttable" in mail.text:
            ignored += ["--ignore", "PREFER_KERNEL_TYPES,CAMELCASE"]
        command = ["perl", str(source / "scripts/checkpatch.pl"), "--strict", "--no-tree", *ignored, "-"]
        # It leaves a list of the words in capitals in its directory.
        done = subprocess.run(command, input=mail.text, capture_output=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stdout.decode()
        assert b"total: 0 errors, 0 warnings, 0 checks, " in done.stdout, done.stdout.decode()
