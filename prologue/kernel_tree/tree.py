"""Puts the patch into a kernel tree, and takes it out again: all of it or nothing.

First every new file is written beside the old one, then all of them are renamed. A file is replaced, never written
into: trees are often copied with hard links. Editors do not lock kernel trees, so the lock keeps out a second prologue
only.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from prologue.errors import BusyError, InputError, InternalError, OutputError, RefusedError
from prologue.kernel_tree.git import apply_changes
from prologue.kernel_tree.patches import Mode
from prologue.kernel_tree.source import KernelTree, TreeFile
from prologue.outputs import settle, temporary_beside, umask

Action = Literal["create", "patch", "restore", "remove"]
_VERBS: Final[dict[bool, tuple[Action, Action]]] = {False: ("create", "patch"), True: ("remove", "restore")}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Actions that were done, or would be."""

    tree: KernelTree
    steps: tuple[tuple[Action, str], ...]  # what is done, and the file
    as_wanted: tuple[str, ...]  # files that needed no change


def install(path: Path, *, mode: Mode = "build", dry_run: bool = False) -> Outcome:
    """Put the patch into a tree. Files that an unfinished run left out are added; patched files are not changed.

    Raises:
        InputError: not a kernel tree, no arm64, or no patch for its release.
        UsageError: git is not installed.
        RefusedError: other changes are in the way, or another version or mode of the patch is in.
        BusyError: another prologue is working on this tree.
        OutputError: a file cannot be written.

    """
    return _carry_out(KernelTree(path, mode), reverse=False, dry_run=dry_run)


def uninstall(path: Path, *, dry_run: bool = False) -> Outcome:
    """Take the patch out of a tree, whichever mode is in; other changes stay, in the same files too.

    Raises:
        InputError, UsageError, BusyError, OutputError: as for ``install``.
        RefusedError: what was put in has been edited since.

    """
    return _carry_out(KernelTree(path), reverse=True, dry_run=dry_run)


def _carry_out(tree: KernelTree, *, reverse: bool, dry_run: bool) -> Outcome:
    path = tree.path
    with nullcontext() if dry_run else locked(path):
        if reverse and tree.installed is None and not tree.in_state("in"):
            return Outcome(tree, (), tuple(file.path for file in tree.files))
        if tree.installed not in (None, tree.mode):
            raise RefusedError(
                f"has the patch of mode {tree.installed}, not {tree.mode}; nothing was changed: take it out first "
                f"(prologue kernel install --uninstall {shlex.quote(str(path))}), then install again",
                path=path,
            )
        if differing := tree.in_state("differs"):
            raise RefusedError(_refusal(tree, differing, reverse=reverse), path=path)
        todo = tree.in_state("in" if reverse else "out")
        # A file that others include is created before them and removed after them.
        todo.sort(key=lambda file: file.change.creates, reverse=not reverse)
        contents = _changed(todo, reverse=reverse)
        if not dry_run:
            replace_files(path, contents)
    done = tuple(file.path for file in tree.files if file not in todo)
    created, changed = _VERBS[reverse]
    return Outcome(tree, tuple((created if file.change.creates else changed, file.path) for file in todo), done)


def _changed(files: list[TreeFile], *, reverse: bool) -> dict[str, bytes | None]:
    """Return the new contents of the files.

    Raises:
        InternalError: undoing the changes would not restore what the files hold now.

    """
    if not files:
        return {}
    diff = b"".join(file.change.text for file in files)
    before = {file.path: file.content for file in files}
    after = apply_changes(diff, before, reverse=reverse)
    if apply_changes(diff, after, reverse=not reverse) != before:
        raise InternalError("the changes could not be undone exactly; nothing was changed")
    return after


def _refusal(tree: KernelTree, files: list[TreeFile], *, reverse: bool) -> str:
    named = ", ".join(f"{file.path} ({file.why})" for file in files)
    if tree.installed is None:
        return (
            f"other changes are in the way: {named}; nothing was changed: restore these files as Linux {tree.series} "
            "has them, or apply the patch by hand (prologue kernel patch)"
        )
    again = "" if reverse else ", then install again"
    return (
        f"another version of the patch is in, or it was edited since: {named}; nothing was changed: "
        "take it out with the prologue that put it in (kernel install --uninstall), or restore these files "
        f"(git checkout, and remove untracked ones){again}"
    )


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep other runs of prologue off a tree.

    Raises:
        BusyError: another one is working on it.
        InputError: the directory cannot be opened.

    """
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(f"cannot be opened: {error.strerror}", path=directory) from error
    try:
        with suppress(OSError):  # some network file systems cannot lock directories: then there is no lock
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BusyError(
                    "another prologue is working on this tree: wait for it, then run again", path=directory
                ) from None
        yield
    finally:
        os.close(fd)


def replace_files(root: Path, contents: Mapping[str, bytes | None]) -> None:
    """Give each file its content, in this order; None removes it, after all others are written.

    Raises:
        OutputError: a file cannot be written; the message says whether anything was changed.

    """
    changed = False
    with ExitStack() as stack:  # whatever happens, no temporary file stays
        try:
            staged: list[tuple[Path, Path]] = []
            for name, content in contents.items():
                if content is not None:
                    temporary = stack.enter_context(temporary_beside(root / name))
                    _write(temporary, content, root / name)
                    staged.append((temporary, root / name))
            for temporary, target in staged:
                temporary.replace(target)
                changed = True
            for name, content in contents.items():
                if content is None:
                    (root / name).unlink()
                    changed = True
        except OSError as error:
            so = "run the same command again to finish" if changed else "nothing was changed"
            raise OutputError(f"cannot be written: {error.strerror}; {so}", path=error.filename or root) from error


def _write(temporary: Path, content: bytes, like: Path) -> None:
    """Write the new file, with the mode and the owner of the one that it will replace."""
    temporary.write_bytes(content)
    mode = 0o666 & ~umask()
    with suppress(FileNotFoundError):
        status = like.stat()
        mode = stat.S_IMODE(status.st_mode)
        with suppress(PermissionError):  # only root may give files away
            os.chown(temporary, status.st_uid, status.st_gid)
    settle(temporary, mode)
