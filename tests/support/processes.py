"""Programs that a test places, processes that it interrupts, and a disk without room for what they write."""

from __future__ import annotations

import resource
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

# In front of a command that is to be interrupted: a shell that starts us in the background has us ignore SIGINT, nohup
# SIGHUP, and children inherit that.
HEEDING: Final = ("/usr/bin/env", "--default-signal=INT,HUP")


def until_gone(pid: int) -> bool:
    """Whether it has ended. Being killed takes a moment, and a zombie may not have been waited for yet."""
    deadline = time.monotonic() + 600
    while not gone(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return gone(pid)


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


def commands_with(text: str) -> list[str]:
    """Command lines of processes that have this text in theirs."""
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # ended meanwhile
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            commands += [command] if text in command else []
    return commands


def place_python_program(path: Path, text: str) -> None:
    """Make a program of Python's text. No shebang names the interpreter: its path may have blanks."""
    source = path.with_suffix(".py")
    source.write_text(text)
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(source))} "$@"\n')
    path.chmod(0o755)


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Let no file become longer than that many bytes; Python writes no compiled modules, which would be cut."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    writes_none, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = writes_none
        signal.signal(signal.SIGXFSZ, handler)
