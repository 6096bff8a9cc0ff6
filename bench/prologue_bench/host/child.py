"""Child processes that neither outlive us nor their time."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Final

_PR_SET_PDEATHSIG: Final = 1
_DRAIN: Final = 5  # seconds for what is left in a pipe; a child's own background process may hold it open for ever
_LIBC: Final = ctypes.CDLL(None)  # loaded here: between fork and exec nothing may be


def die_with_parent() -> None:
    """Kill the child when we die, even by SIGKILL; for ``preexec_fn``."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def end_with_parent() -> None:
    """Ask the child to end when we die, so that it can tidy up; for ``preexec_fn``."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def run_lines(
    command: Sequence[str],
    timeout: float,
    *keep: Callable[[str], None],
    stdin: IO[bytes] | int = subprocess.DEVNULL,
    environment: Mapping[str, str] | None = None,
) -> int | None:
    """Run a command in a session of its own and give away its lines as they come, without their ends.

    Args:
        command: program and arguments.
        timeout: seconds until the command is killed, with all that it started.
        keep: called with each line, in a thread: one for all output, or one for standard output and one for errors.
            What one raises ends the command.
        stdin: its standard input.
        environment: what is added to our environment.

    Returns:
        Its exit status, negative for a signal; None if its time was over.

    """
    process = subprocess.Popen(
        command, stdin=stdin, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if len(keep) == 1 else subprocess.PIPE,
        text=True, errors="replace", env=None if environment is None else {**os.environ, **environment},
        start_new_session=True, preexec_fn=die_with_parent,  # noqa: PLW1509 - one prctl
    )  # fmt: skip
    failures: list[Exception] = []

    def pass_on(stream: IO[str], sink: Callable[[str], None]) -> None:
        try:
            with stream:
                for line in stream:
                    sink(line.rstrip("\r\n"))
        except Exception as error:
            failures.append(error)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)

    readers = [
        threading.Thread(target=pass_on, args=(stream, sink), daemon=True)
        for stream, sink in zip((process.stdout, process.stderr), keep, strict=False)
    ]
    for reader in readers:
        reader.start()
    try:
        status = process.wait(max(timeout, 0))
    except subprocess.TimeoutExpired:
        status = None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for reader in readers:
            reader.join(_DRAIN)
    if failures:
        raise failures[0]
    return status
