"""A shell on another machine, by ssh: one login for all questions. It needs a POSIX shell there, and nothing else."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import tempfile
import weakref
from collections.abc import Callable, Sequence
from typing import IO, Final, NoReturn

from prologue.errors import InputError

_READY: Final = b"==== ready\n"  # what a login shell prints of its own comes before
_DONE: Final = b"==== done\n"
_PATIENCE: Final = 300  # seconds without a byte of an answer, unless somebody said how many
_AFTER_ALL: Final = 5  # the same, after what looks like its end
_CHUNK: Final = 1 << 20
# The user's own options stand before these, and ssh takes the first that it sees.
SSH_OPTIONS: Final = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=15")
_SHORT: Final = "sent less than was asked for: try again"
CONNECTION_BROKE: Final = 255  # ssh's own exit status


class RemoteShell:
    """A shell that ssh logs in to without a password, when it is first asked, and again if it ended.

    Args:
        name: what the machine is called in messages.
        host: what ssh takes, such as ``root@board``.
        ssh_options: words for ssh, before its host.
        hint: what to do if a command fails there.
        patience: seconds that it may be silent before an answer has ended.

    """

    def __init__(
        self, name: str, host: str, ssh_options: Sequence[str], hint: str, patience: int | None = None
    ) -> None:
        self._patience = patience or _PATIENCE
        self._name = name
        self._hint = hint
        self._command = ["ssh", "-T", *ssh_options, *SSH_OPTIONS, "--", host, "exec sh"]
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None  # its standard error

    def ask(self, script: str, size: int) -> bytes:
        """Run commands there that print ``size`` bytes; all of the script is sent before an answer is read.

        Raises:
            InputError: no login, no answer, an answer of another size, or a command failed.

        """
        output = self._ask(f"{script}echo '{_DONE.decode().strip()}'\n", lambda data: len(data) >= size + len(_DONE))
        if output[size:] != _DONE:  # something else printed there: bytes are not where they were asked for
            self._close()
            raise InputError("sent more than was asked for: try again", path=self._name)
        return output[:size]

    def ask_until(self, script: str, end: bytes) -> bytes:
        """Run commands there until they print ``end``, or the shell ends; return what was printed.

        Raises:
            InputError: as ``ask``.

        """
        return self._ask(script, lambda data: data.endswith(end), may_end=True)

    def _ask(self, script: str, is_all: Callable[[bytearray], bool], *, may_end: bool = False) -> bytes:
        if self._process is None:
            self._process = self._log_in()
        self._send(script)
        return self._receive(is_all, may_end=may_end)

    def _log_in(self) -> subprocess.Popen[bytes]:
        # Sent as standard input: the login shell may be any, and nothing of a script is left to quote.
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the shell
        try:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said
            )
        except FileNotFoundError as error:
            raise InputError("ssh is not installed (Debian package openssh-client)", path=self._name) from error
        weakref.finalize(self, _end, self._process, self._said)
        self._send(f"echo '{_READY.decode().strip()}'\n")
        self._receive(lambda data: data.endswith(_READY))
        return self._process

    def _send(self, script: str) -> None:
        assert self._process is not None and self._process.stdin is not None  # noqa: PT018, S101 - one condition
        with contextlib.suppress(BrokenPipeError):  # why it ended is said if an answer is missing
            self._process.stdin.write(script.encode())
            self._process.stdin.flush()

    def _receive(self, is_all: Callable[[bytearray], bool], *, may_end: bool = False) -> bytes:
        assert self._process is not None and self._process.stdout is not None  # noqa: PT018, S101 - one condition
        data, stream = bytearray(), self._process.stdout.fileno()
        while not is_all(data):
            short = data.endswith(_DONE)
            if not select.select([stream], [], [], min(_AFTER_ALL, self._patience) if short else self._patience)[0]:
                self._close()
                raise InputError(_SHORT if short else f"no answer within {self._patience} s", path=self._name)
            part = os.read(stream, _CHUNK)
            if not part:
                if may_end and self._process.wait() == 0:
                    self._close()
                    break
                self._fail()
            data += part
        return bytes(data)

    def _fail(self) -> NoReturn:
        """Say why the shell ended."""
        assert self._process is not None and self._said is not None  # noqa: PT018, S101 - one condition
        status = self._process.wait()
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines() or [f"status {status}"]
        self._close()
        if status == CONNECTION_BROKE:
            raise InputError(f"ssh failed: {lines[-1]}", path=self._name)
        if not status:
            raise InputError(_SHORT, path=self._name)
        raise InputError(f"{lines[-1]}: {self._hint}", path=self._name)

    def _close(self) -> None:
        assert self._process is not None and self._said is not None  # noqa: PT018, S101 - one condition
        _end(self._process, self._said)
        self._process = None


def _end(process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
    for stream in (process.stdin, process.stdout, errors):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()
    process.kill()
    process.wait()
