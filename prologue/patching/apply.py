"""The only writer. It takes approved plans, re-reads every old word, and writes stage by stage.

In place: a lock, a check of the whole plan, then the stages in their order with plain ``pwrite`` (a mapped write
would turn a full disk into SIGBUS). Words never straddle pages, so a kill leaves each either old or new, and the
same plan applied again finishes the work. A plan with a guard needs the journal for that.

To another file: a temporary file in the same directory, fsync, rename.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from prologue.arrays import U64
from prologue.errors import BusyError, OutputError, RefusedError
from prologue.kernel.module import Module
from prologue.outputs import new_file, require_plain_target, same_file
from prologue.patching.copying import copy_file
from prologue.patching.journal import remove_journal, write_journal
from prologue.patching.words import read_words, write_words
from prologue.plan.edits import Edits
from prologue.rules.engine import ApprovedPlan


def apply_in_place(approved: ApprovedPlan) -> int:
    """Carry out the plan on the file that it was made from.

    Returns:
        Number of words written; 0 if all had been done before.

    Raises:
        BusyError: another process holds the file's lock.
        OutputError: the file is a link, read-only, or cannot be written.
        RefusedError: a word is neither its old nor its new value: the file changed since it was read.

    """
    path = approved.binary.path
    require_plain_target(path)
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise OutputError(f"cannot be opened for writing: {error.strerror}", path=path) from error
    try:
        _lock(fd, path, fcntl.LOCK_EX)
        return _write(fd, approved, path) if approved.plan.guard is None else _write_guarded(fd, approved, path)
    finally:
        os.close(fd)


def apply_to(approved: ApprovedPlan, out: Path, check: Callable[[Path], object]) -> int:
    """Write a copy of the file with the plan carried out; ``out`` appears whole or not at all.

    ``check`` looks at the copy before it gets its name, and raises if it is not good.

    Returns:
        Number of words that differ from the input.

    Raises:
        OutputError: ``out`` is the input, a link or no regular file, or cannot be written.

    """
    source = approved.binary.path
    if same_file(out, source):
        raise OutputError("is the input: use --in-place to write into it", path=out)
    with _locked_for_reading(source), new_file(out, like=source) as temporary:
        copy_file(source, temporary)
        fd = os.open(temporary, os.O_RDWR | os.O_CLOEXEC)
        try:
            written = _write(fd, approved, out)
        finally:
            os.close(fd)
        check(temporary)
        return written


def rewrite(approved: ApprovedPlan, out: Path, check: Callable[[Path], object]) -> int:
    """Write a whole new module: one that is stored compressed, or that loses its signature.

    ``out`` may be the input itself; it is replaced at once or not at all.

    Returns:
        Number of words that differ from the input's.

    Raises:
        OutputError: ``out`` may not be replaced, or cannot be written.
        RefusedError: a word is neither its old nor its new value.

    """
    from prologue.elf.compressed import compress

    module = approved.binary
    if not isinstance(module, Module):
        raise TypeError(f"{module.path} is no module")
    content = bytearray(module.image.content)
    raw = np.frombuffer(content, np.uint8)
    written = 0
    for stage in approved.plan.stages:
        words = module.image.words_at(stage.offsets, stage.width)
        _require_expected(approved, stage, words)
        at = stage.offsets[:, None] + np.arange(stage.width)
        raw[at] = stage.new.astype("<u4" if stage.width == 4 else "<u8").view(np.uint8).reshape(-1, stage.width)
        written += int((words != stage.new).sum())
    if not written and not module.stripped and out.exists() and out.samefile(module.path):
        return 0
    with _locked_for_reading(module.path), new_file(out, like=module.path) as temporary:
        temporary.write_bytes(compress(bytes(content), module.compression) if module.compression else content)
        check(temporary)
    return written


def _lock(fd: int, path: Path, kind: int) -> None:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise BusyError("another prologue is working on this file: wait for it, then run again", path=path) from error


@contextmanager
def _locked_for_reading(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _lock(fd, path, fcntl.LOCK_SH)
        yield
    finally:
        os.close(fd)


def _write(fd: int, approved: ApprovedPlan, path: Path) -> int:
    return _write_stages(fd, approved, _all_pending(fd, approved, path), path)


def _write_guarded(fd: int, approved: ApprovedPlan, path: Path) -> int:
    """Write with a journal; from the first write to the last one, the marker says that the file is unfinished."""
    plan = approved.plan
    pending = _all_pending(fd, approved, path)
    if not any(todo.any() for todo in pending):
        remove_journal(path)  # of a run that was killed after its last write
        return 0
    last = plan.stages[-1]
    guard = np.array([plan.guard], np.uint64)
    if not np.array_equal(read_words(fd, last.offsets, last.width), guard):
        write_journal(path, plan)
        _write_some(fd, last, np.ones(1, np.bool_), guard, path)
        pending[-1][:] = True
    written = _write_stages(fd, approved, pending, path)
    remove_journal(path)
    return written


def _all_pending(fd: int, approved: ApprovedPlan, path: Path) -> list[npt.NDArray[np.bool_]]:
    if os.fstat(fd).st_size != approved.plan.file_size:
        raise RefusedError("the file changed since it was read: run again", path=path)
    return [_pending(fd, approved, stage) for stage in approved.plan.stages]


def _write_stages(fd: int, approved: ApprovedPlan, pending: list[npt.NDArray[np.bool_]], path: Path) -> int:
    for stage, todo in zip(approved.plan.stages, pending, strict=True):
        _write_some(fd, stage, todo, stage.new, path)
    return sum(int(todo.sum()) for todo in pending)


def _write_some(fd: int, stage: Edits, todo: npt.NDArray[np.bool_], words: U64, path: Path) -> None:
    try:
        write_words(fd, stage.offsets[todo], words[todo], stage.width)
    except OSError as error:
        message = f"write failed: {error.strerror}; make room and run the same command again: it resumes here"
        raise OutputError(message, path=path) from error


def _pending(fd: int, approved: ApprovedPlan, stage: Edits) -> npt.NDArray[np.bool_]:
    """Return which edits of the stage are still to be done.

    Raises:
        RefusedError: a word that is neither old nor new.

    """
    if len(stage) and int(stage.offsets.min()) < 0:
        raise RefusedError(f"an edit has no place in the file ({stage.reason})", path=approved.binary.path)
    words = read_words(fd, stage.offsets, stage.width)
    _require_expected(approved, stage, words)
    todo: npt.NDArray[np.bool_] = words != stage.new
    return todo


def _require_expected(approved: ApprovedPlan, stage: Edits, words: U64) -> None:
    strange = (words != stage.new) & (words != stage.old)
    if approved.plan.guard is not None and stage is approved.plan.stages[-1]:
        strange &= words != np.uint64(approved.plan.guard)
    for k in np.flatnonzero(strange)[:1].tolist():
        digits = 2 * stage.width
        raise RefusedError(
            f"expected {int(stage.old[k]):0{digits}x}, found {int(words[k]):0{digits}x}, which another tool wrote; "
            "nothing was written: link again",
            path=approved.binary.path,
            where=approved.binary.symbols.locate(int(stage.vaddrs[k])),
        )
