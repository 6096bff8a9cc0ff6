"""Copies of files, made by ``cp``, which knows reflinks and holes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from prologue.errors import OutputError
from prologue.signals import held_signals

if TYPE_CHECKING:
    import subprocess


def copy_file(source: Path, target: Path) -> None:
    """Copy a file's bytes, with holes and reflinks if the file system has them.

    Raises:
        OutputError: it cannot be written.

    """
    with copied_meanwhile(source, target) as wait:
        wait()


@contextmanager
def copied_meanwhile(source: Path, target: Path) -> Iterator[Callable[[], None]]:
    """Copy as ``copy_file`` does while the body does something else; what it is given waits for the end of the copy.

    The copy is given up if the body ends, or fails, without it. Waiting raises what ``copy_file`` raises.
    """
    import subprocess

    command = ["cp", "--reflink=auto", "--sparse=auto", "--", str(source), str(target)]

    def wait() -> None:
        _, complaints = process.communicate()
        if process.returncode:
            raise OutputError(f"{_why(process, complaints)}; nothing was left behind", path=target.parent)

    # A signal waits until cp is sure to be killed: otherwise it would make the file when this run has ended.
    with held_signals() as release:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                text=True, errors="backslashreplace",
            )  # fmt: skip
        except OSError as error:  # its reason must not pass for one of the file
            raise OutputError(f"cannot be copied without cp: {error.strerror}", path=source) from error
        with process:
            try:
                release()
                yield wait
            finally:
                process.kill()  # nothing happens to one that has ended


def _why(done: subprocess.Popen[str], complaints: str) -> str:
    """Return the last line that a command said, without the place, or what ended it."""
    if done.returncode < 0:  # SIGXFSZ, for one: Python ignores it, and what it starts does not
        return signal.strsignal(-done.returncode) or f"cp was ended by signal {-done.returncode}"
    lines = complaints.strip().splitlines()
    return lines[-1].rpartition(": ")[2] if lines else f"cp ended with {done.returncode}"
