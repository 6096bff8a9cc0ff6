"""A shell on another machine, by the system's own ssh, with the user's ssh configuration."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from prologue_bench.errors import BenchError, MissingToolError
from prologue_bench.host.child import run_lines
from prologue_bench.host.events import LAST_LINES

_CONNECTION_BROKE: Final = 255  # ssh's own exit status
# The user's options stand before these, and ssh takes the first it sees. No shared connections: one that survives the
# reboot of its machine only hangs.
_OPTIONS: Final = (
    "BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=15", "ServerAliveCountMax=4", "ControlMaster=no",
    "ControlPath=none",
)  # fmt: skip
# The script arrives whole before it starts, and none of its commands can eat the rest of it.
_FROM_STDIN: Final = 'script=$(cat); eval "$script"'


class Transcript:
    """A log of everything that was done and said, each line after the seconds since the beginning.

    A full disk is an OSError when it is closed, not before: what is under way on the machine comes to its end. Once it
    is closed, what a hook left running may still say something, which is not kept.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin = time.monotonic()
        self._stream = path.open("w", encoding="utf-8")
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._lock = threading.Lock()  # both pipes of a command are read at once

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._begin

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines."""
        return tuple(self._last)

    def write(self, line: str) -> None:
        """Add one line."""
        with self._lock:
            text = f"[{self.seconds:7.1f}] {line}"
            self._last.append(text)
            with suppress(OSError, ValueError):  # full, closed
                self._stream.write(text + "\n")
                self._stream.flush()

    def __enter__(self) -> Transcript:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._stream.close()


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Outcome of a command; ``status`` is None if it was stopped because its time was over."""

    status: int | None
    lines: tuple[str, ...]
    errors: tuple[str, ...]

    @property
    def lost(self) -> bool:
        """True if the machine, not the command, failed to answer."""
        return self.status is None or self.status < 0 or self.status == _CONNECTION_BROKE

    @property
    def reason(self) -> str:
        """Last thing that it said before it failed."""
        if self.status is None:
            return "no answer in time"
        lines = [line for line in (*self.lines, *self.errors) if line.strip()]
        return lines[-1].strip() if lines else f"status {self.status}"


class Remote:
    """A host that ssh can log in to without a password.

    Raises:
        BenchError: the host's name cannot be one.
        MissingToolError: no ssh.

    """

    def __init__(self, host: str, options: Sequence[str] = ()) -> None:
        if not host or host.startswith("-"):
            raise BenchError(f"{host!r} is not a host: expected what ssh takes, as in ssh:root@board")
        if shutil.which("ssh") is None:
            raise MissingToolError("ssh is not installed (Debian package openssh-client)")
        self.host = host
        settings = (word for option in _OPTIONS for word in ("-o", option))
        self.command = ("ssh", "-T", *options, *settings, "--", host)

    def run(self, script: str, timeout: float, log: Transcript | None = None) -> CommandResult:
        """Run a POSIX shell script there; its standard input is empty. ``timeout`` in seconds."""
        with tempfile.TemporaryFile() as stdin:
            stdin.write(script.encode())
            stdin.seek(0)
            return execute([*self.command, _shell(_FROM_STDIN)], timeout, log, stdin=stdin)

    def send(self, path: Path, script: str, timeout: float, log: Transcript | None = None) -> CommandResult:
        """Run a POSIX shell script there whose standard input is a file of ours."""
        with path.open("rb") as stdin:
            return execute([*self.command, _shell(script)], timeout, log, stdin=stdin)


def split_words(option: str, text: str) -> tuple[str, ...]:
    """Split a text into words as a shell would; ``option`` names it.

    Raises:
        BenchError: a quote is open.

    """
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise BenchError(f"{option} {text!r}: {error}") from error


def _shell(script: str) -> str:
    """Make a command for any login shell that the user has there."""
    return f"sh -c {shlex.quote(script)}"


def execute(
    command: Sequence[str],
    timeout: float,
    log: Transcript | None = None,
    *,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
    environment: Mapping[str, str] | None = None,
) -> CommandResult:
    """Run a command, stop it after ``timeout`` seconds, copy what it says to the log line by line."""
    streams: tuple[list[str], list[str]] = ([], [])

    def keeper(lines: list[str]) -> Callable[[str], None]:
        def keep(line: str) -> None:
            lines.append(line)
            if log is not None:
                log.write(line)

        return keep

    status = run_lines(command, timeout, *map(keeper, streams), stdin=stdin, environment=environment)
    if log is not None and status != 0:
        log.write(f"stopped after {timeout:.0f} s" if status is None else f"status {status}")
    return CommandResult(status, tuple(streams[0]), tuple(streams[1]))
