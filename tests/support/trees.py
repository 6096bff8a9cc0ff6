"""Kernel trees to install into: made ones, from what the patches take for granted, and pieces of Debian's."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
from functools import partial
from pathlib import Path, PurePath
from typing import Final

from prologue.kernel_tree.diff import FileChange
from prologue.kernel_tree.patches import MODES, STEPS, default_mode, load_patch
from prologue_bench.host import cache
from tests.support.debian.source import unpacked_source
from tests.support.needs import needs_packages, needs_tools

SOURCES: Final = {
    "6.1": ("bookworm", "linux-source-6.1"),
    "6.12": ("trixie", "linux-source-6.12"),
    "7.2": ("sid", "linux-source-7.2"),
    "7.3": ("trixie-backports", "linux-source-7.3"),
}
# What mode build creates: the place in the tree, and our file.
DROPPED_IN: Final = {place: name for step in MODES["build"] for place, name in STEPS[step].items()}
CHECKPATCH: Final = ("scripts/checkpatch.pl", "scripts/const_structs.checkpatch", "scripts/spelling.txt")
Fingerprint = dict[str, tuple[int, str]]


def made_tree(series: str, directory: Path) -> Path:
    """A tree whose files hold the lines that the patch changes, where it says, and otherwise numbered comments."""
    directory.mkdir(parents=True)
    version, _, patchlevel = series.partition(".")
    (directory / "Makefile").write_text(
        f"# SPDX-License-Identifier: GPL-2.0\nVERSION = {version}\nPATCHLEVEL = {patchlevel}\nSUBLEVEL = 99\n"
        "EXTRAVERSION =\nNAME = Made for a Test\n\n# VERSION = 1\n"
    )
    for change in changes_of_all_modes(series):
        path = directory / change.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if change.creates:
            continue
        end = change.hunks[-1].old_start + 40
        lines = [b"# line %d" % number for number in range(1, end)]
        for hunk in change.hunks:
            lines[hunk.old_start - 1 : hunk.old_start - 1 + len(hunk.old)] = hunk.old
        path.write_bytes(b"\n".join(lines) + b"\n")
    return directory


def changes_of_all_modes(series: str) -> list[FileChange]:
    """A change of each file that some mode changes: before it, the file has the same lines for all of them."""
    patches = [load_patch(series, mode=mode) for mode in ("build", default_mode(series))]
    return [*{change.path: change for patch in patches for change in patch.changes}.values()]


def needs_real_tree(series: str) -> Path:
    """The files of Debian's source that matter here. The cache's: copy before changing anything."""
    changes = changes_of_all_modes(series)
    names = [change.path for change in changes if not change.creates]
    directories = {str(PurePath(change.path).parent) for change in changes if change.creates}
    directories -= {str(PurePath(name).parent) for name in names} | {"arch/arm64"}
    return needs_source_files(*SOURCES[series], {*names, *directories})


def needs_source_files(suite: str, package: str, wanted: set[str]) -> Path:
    """Files and directories of a source package, and those that make them a kernel tree. The cache's, too."""
    needs_tools("xz", "tar", "dpkg-deb")  # which are there, but a source is more than the demo has
    names = sorted({"Makefile", "arch/arm64/Makefile", *CHECKPATCH, *wanted})
    (file,) = needs_packages(suite, package)
    key = f"sources/{file.stem}-{hashlib.sha256('|'.join(names).encode()).hexdigest()[:16]}"
    return cache.produce(key, partial(_copy, file, names))


def _copy(file: Path, names: list[str], directory: Path) -> None:
    tree = unpacked_source(file)
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        if (tree / name).is_dir():
            shutil.copytree(tree / name, directory / name)
        else:
            shutil.copy2(tree / name, directory / name)


def fingerprint(tree: Path) -> Fingerprint:
    """Every name below a directory but git's own, with mode and content."""
    result: Fingerprint = {}
    for path in sorted(tree.rglob("*")):
        name = path.relative_to(tree).as_posix()
        if name.split("/")[0] == ".git":
            continue
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            content = str(path.readlink())
        else:
            content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(mode) else ""
        result[name] = (mode, content)
    return result


def untouched(tree: Path) -> dict[str, tuple[int, int, int]]:
    """What would change if a file, or a directory, were written to at all."""
    found = {path: path.lstat() for path in tree.rglob("*")}
    return {str(path): (status.st_ino, status.st_mtime_ns, status.st_ctime_ns) for path, status in found.items()}


def git(directory: Path, *arguments: str, given: bytes = b"") -> str:
    """Run git there, with no settings but ours; fails if git does."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    who = ["-c", "user.name=a tester", "-c", "user.email=tester@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", *who, *arguments], cwd=directory, env=environment, input=given, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def repository(directory: Path) -> Path:
    """Make a git repository of a directory, with all that is in it committed."""
    git(directory, "init", "--quiet")
    git(directory, "add", "--all", "--force")
    git(directory, "commit", "--quiet", "--allow-empty", "--message=all")
    return directory
