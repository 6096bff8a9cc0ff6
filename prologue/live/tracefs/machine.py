"""Shell scripts that trace, run here or on a machine by ssh until they end or are told to."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.resources import files
from threading import Thread
from typing import IO, Final, NamedTuple

from prologue.errors import InputError
from prologue.live.memory.session import CONNECTION_BROKE, SSH_OPTIONS

LOCAL: Final = "local"
_INCLUDE: Final = ". instance.sh\n"


def with_instance(script: str) -> str:
    """Return a script with what all of them share (``instance.sh``) in the place of the line that names it."""
    shared = files("prologue.live.tracefs").joinpath("instance.sh").read_text(encoding="utf-8")
    return script.replace(_INCLUDE, shared, 1)


class TracingScript(NamedTuple):
    """A script for any POSIX shell.

    ``name`` is what it is called in its own messages (``NAME: TEXT`` on standard error), ``failing`` how an error
    begins that repeats one of them.
    """

    text: str
    name: str
    failing: str


class TracedMachine:
    """A machine that runs such scripts.

    Args:
        source: ``local`` or ``ssh:HOST``.
        ssh_options: words for ssh, before its host.

    Raises:
        InputError: ``source`` is no machine.

    """

    def __init__(self, source: str, ssh_options: Sequence[str] = ()) -> None:
        self.source = source
        self._host = source.removeprefix("ssh:") if source != LOCAL else ""
        self._ssh_options = tuple(ssh_options)
        if source != LOCAL and (not source.startswith("ssh:") or not self._host or self._host.startswith("-")):
            raise InputError("is not a machine: expected local, or ssh:HOST as in ssh:root@board", path=source)

    def run(self, script: TracingScript, arguments: Sequence[str], take: Callable[[bytes], object]) -> str:
        """Run a script to its end; an interrupt closes its standard input, at which it has to end by itself.

        Args:
            script: the script.
            arguments: of the script.
            take: gets each line of its standard output as it comes, in another thread.

        Returns:
            What it printed on standard error.

        Raises:
            InputError: ssh failed, or the script says why it cannot run.
            Exception: what ``take`` raised, when the script has ended.

        """
        # No other program may read the script or input after it: so the shell gets it byte by byte, and its standard
        # input stays open as long as it is to run.
        text = script.text.encode()
        command = ["sh", "-c", f'eval "$(dd bs=1 count={len(text)} 2>/dev/null)"', script.name, *arguments]
        if self._host:
            command = ["ssh", "-T", *self._ssh_options, *SSH_OPTIONS, "--", self._host, shlex.join(command)]
        try:
            # A session of its own: Ctrl-C is for this process, which then ends the script and waits for its output.
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
            )
        except FileNotFoundError as error:
            raise InputError(f"{command[0]} is not installed", path=self.source) from error
        with process:
            try:
                complaints = _talk(process, text, take)
            except BaseException:
                process.terminate()  # interrupted twice: the script takes off what it has set
                raise
        if process.returncode:
            raise InputError(self._failure(process.returncode, complaints, script), path=self.source)
        return complaints

    def _failure(self, status: int, complaints: str, script: TracingScript) -> str:
        lines = complaints.strip().splitlines()
        start = f"{script.name}: "
        complaint = next((line.removeprefix(start) for line in lines if line.startswith(start)), "")
        if complaint:
            return f"{script.failing}: {complaint}"
        last = lines[-1] if lines else f"status {status}"
        is_lost = self._host and status == CONNECTION_BROKE
        return f"ssh failed: {last}" if is_lost else f"{script.name.removesuffix('.sh')} failed: {last}"


def _talk(process: subprocess.Popen[bytes], text: bytes, take: Callable[[bytes], object]) -> str:
    """Give the script its text, and its lines to ``take``; return what it complained about."""
    assert process.stdin and process.stdout and process.stderr  # noqa: S101, PT018 - Popen was told to make pipes
    complaints: list[bytes] = []
    failures: list[Exception] = []
    stdin = process.stdin

    def keep_lines(stream: IO[bytes]) -> None:
        for line in stream:
            if failures:
                continue
            try:
                take(line)
            except Exception as error:  # raised again below
                failures.append(error)
                _close(stdin)

    readers = [
        Thread(target=keep_lines, args=(process.stdout,), daemon=True),
        Thread(target=lambda stream: complaints.append(stream.read()), args=(process.stderr,), daemon=True),
    ]
    for reader in readers:
        reader.start()
    with suppress(BrokenPipeError):  # it ended, and prints the reason
        stdin.write(text)
        stdin.flush()
    try:
        for reader in readers:
            reader.join()
    except KeyboardInterrupt:
        _close(stdin)
        for reader in readers:
            reader.join()
    _close(stdin)
    process.wait()
    if failures:
        raise failures[0]
    return b"".join(complaints).decode(errors="replace")


def _close(stream: IO[bytes]) -> None:
    with suppress(BrokenPipeError):
        stream.close()
