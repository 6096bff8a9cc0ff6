"""The patches on the sources that they are for, as Debian has them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from prologue.errors import RefusedError
from prologue.kernel_tree.mail import patch_mails
from prologue.kernel_tree.patches import (
    MODES,
    STANDALONE,
    Mode,
    default_mode,
    load_patch,
    load_standalone,
    standalone_releases,
)
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


def test_there_and_back(real: Path, source: Path, tmp_path: Path) -> None:
    """And ``git am`` of the mails does the same. Had a place been edited, a hunk must not find another one."""
    before = fingerprint(real)
    other = repository(Path(shutil.copytree(real, tmp_path / "other")))
    for mode in modes_of(source):
        assert_one_place_for_each_hunk(real, mode)
        outcome = install(real, mode=mode)
        assert len(outcome.steps) == len(outcome.tree.patch.changes)
        assert install(real, mode=mode).steps == ()
        assert_one_place_for_each_hunk(real, mode)
        git(other, "am", "--quiet", given=mbox(outcome.tree.patch))
        assert fingerprint(other) == fingerprint(real)
        git(other, "reset", "--quiet", "--hard", f"HEAD~{len(outcome.tree.patch.patches)}")
        uninstall(real)
        assert fingerprint(real) == before


def assert_one_place_for_each_hunk(tree: Path, mode: Mode) -> None:
    for file in KernelTree(tree, mode).files:
        for hunk in () if file.change.creates else file.change.hunks:
            lines = b"".join(b"%b\n" % line for line in (hunk.new if file.state == "in" else hunk.old))
            assert (b"\n" + (file.content or b"")).count(b"\n" + lines) == 1, (file.path, hunk.old_start)


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


def test_checkpatch_has_nothing_to_say(source: Path, tmp_path: Path) -> None:
    needs_tools("perl")
    repository(tmp_path)  # without one, it takes any hexadecimal number for a commit's
    series = KernelTree(source).series
    modes: set[Mode] = {"build", default_mode(series)}
    patches = [load_patch(series, mode=mode) for mode in modes]
    patches += [load_standalone(name, series) for name in STANDALONE if series in standalone_releases(name)]
    for mail in (mail for patch in patches for mail in patch_mails(patch, TESTER)):
        # The repository has no history, in which the commit of a Fixes: could be looked up.
        ignored = ["UNKNOWN_COMMIT_ID"]
        # MAINTAINERS names all of arch/arm64 and Documentation/trace: no new entry for files there. Through a pipe: a
        # file that git knows is checked as source, not as a patch.
        ignored += ["FILE_PATH_CHANGES"] * (b"new file mode" in mail.text)
        # A program of the build machine: its integers are <stdint.h>'s, and <elf.h> has the capitals.
        ignored += ["PREFER_KERNEL_TYPES", "CAMELCASE"] * (b"+++ b/scripts/sorttable" in mail.text)
        options = ["--strict", "--no-tree", "--ignore", ",".join(ignored)]
        command = ["perl", str(source / "scripts/checkpatch.pl"), *options, "-"]
        # It leaves a list of the words in capitals in its directory.
        done = subprocess.run(command, input=mail.text, capture_output=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stdout.decode()
        assert b"total: 0 errors, 0 warnings, 0 checks, " in done.stdout, done.stdout.decode()
