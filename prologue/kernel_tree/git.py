"""Runs git: ``git apply`` on copies of the files only, and ``git var`` for who posts a patch.

The copies are in a directory outside of any repository: inside one, git silently skips paths that it places
elsewhere. The result is checked before the kernel tree changes, and git does not decide how files there are replaced.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from prologue.errors import InternalError, OutputError, UsageError


def apply_changes(
    diff: bytes, contents: Mapping[str, bytes | None], *, reverse: bool = False
) -> dict[str, bytes | None]:
    """Return the contents after the diff, or before it; None means a file that does not exist.

    Raises:
        UsageError: git is not installed.
        OutputError: the copies cannot be written.
        InternalError: git refuses a diff that fits.

    """
    with _scratch() as directory:
        for path, content in contents.items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            if content is not None:
                (directory / path).write_bytes(content)
        _git_apply(directory, diff, "--whitespace=nowarn", *(["--reverse"] if reverse else []))
        files = {path: directory / path for path in contents}
        return {path: file.read_bytes() if file.exists() else None for path, file in files.items()}


def diffstat(diff: bytes) -> bytes:
    """Summarise a diff as ``git format-patch`` does: files, lines, and which files are new.

    Raises:
        UsageError: git is not installed.
        OutputError: a temporary directory cannot be made.

    """
    with _scratch() as directory:
        return _git_apply(directory, diff, "--stat", "--summary")


@contextmanager
def _scratch() -> Iterator[Path]:
    try:
        with tempfile.TemporaryDirectory(prefix="prologue-") as name:
            yield Path(name).resolve()
    except OSError as error:
        raise OutputError(f"copies cannot be made: {error.strerror}", path=error.filename) from error


@dataclass(frozen=True, slots=True)
class Identity:
    """Poster of a patch, as git knows the user, and when."""

    name: str
    email: str
    date: datetime  # with the user's time zone

    @property
    def sign_off(self) -> str:
        """The line by which the poster certifies the patch's origin (Documentation/process/submitting-patches.rst)."""
        return f"Signed-off-by: {self.name} <{self.email}>"


def identity(directory: Path) -> Identity:
    """Ask git for the committer in this directory: from the environment, or from settings; nothing is guessed.

    Raises:
        UsageError: git is not installed, does not know the user, or knows an address that mail cannot have.

    """
    command = [_git(), "-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT"]
    done = subprocess.run(command, cwd=directory, capture_output=True, encoding="utf-8", errors="replace", check=False)
    match = re.fullmatch(r"(.+) <(.+)> (\d+) ([+-])(\d\d)(\d\d)\n", done.stdout)
    if done.returncode or match is None:
        raise UsageError(
            "Signed-off-by needs your identity, and git has none: git config --global user.name NAME, "
            "and user.email ADDRESS"
        )
    name, email, seconds, sign, hours, minutes = match.groups()
    if not email.isascii():
        raise UsageError(f"mail cannot be from {email!r}, which is not ASCII: git config user.email ADDRESS")
    offset = timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if sign == "-" else 1)
    return Identity(name, email, datetime.fromtimestamp(int(seconds), timezone(offset)))


def head_commit(tree: Path) -> str:
    """Return the commit that a tree is at; empty if it is no git repository by itself.

    Raises:
        UsageError: git is not installed.

    """
    if not (tree / ".git").exists():
        return ""
    command = [_git(), "-C", str(tree), "rev-parse", "--verify", "--quiet", "HEAD"]
    return subprocess.run(command, capture_output=True, encoding="ascii", check=False).stdout.strip()


def _git() -> str:
    git = shutil.which("git")
    if git is None:
        raise UsageError("git is not in PATH, and prologue needs it for patches: install the package git")
    return git


def _git_apply(directory: Path, diff: bytes, *options: str) -> bytes:
    # A git hook or `git rebase --exec` may have started this process, and the user's settings must not apply here.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {
        "LC_ALL": "C",
        "GIT_CEILING_DIRECTORIES": str(directory.parent),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    done = subprocess.run(
        [_git(), "apply", *options, "-"], cwd=directory, env=environment, input=diff, capture_output=True, check=False
    )
    if done.returncode:
        raise InternalError(f"git apply: {'; '.join(done.stderr.decode(errors='replace').strip().splitlines())}")
    return done.stdout
