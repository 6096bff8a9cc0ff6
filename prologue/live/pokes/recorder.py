"""Runs the recorder's script, here or where ssh logs in to, and keeps what it prints."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from importlib.resources import files
from typing import IO, Final

from prologue.errors import InputError
from prologue.live.memory.session import CONNECTION_BROKE, SSH_OPTIONS

LOCAL: Final = "local"


def script() -> str:
    """The recorder, for any POSIX shell: one script of two files."""
    parts = [files("prologue.live.pokes").joinpath(name) for name in ("record.sh", "printing.sh")]
    return "".join(part.read_text(encoding="utf-8") for part in parts)


def record(source: str, options: Sequence[str], ssh_options: Sequence[str] = ()) -> str:
    """Record until it ends; an interrupt ends the recording, and what was recorded comes.

    Args:
        source: ``local`` or ``ssh:HOST``.
        options: of the script, and the command that it is to run.
        ssh_options: words for ssh, before its host.

    Returns:
        What the script printed.

    Raises:
        InputError: there is nothing to log in to, or the recorder says why it cannot record.

    """
    text = script()
    # Neither the script nor what comes after it may be read by another program: so the shell gets it byte by byte, and
    # its standard input stays open as long as we want it to record.
    shell = f'eval "$(dd bs=1 count={len(text.encode())} 2>/dev/null)"'
    command = ["sh", "-c", shell, "record.sh", "-e", *options]
    if source != LOCAL:
        host = source.removeprefix("ssh:")
        if not source.startswith("ssh:") or not host or host.startswith("-"):
            raise InputError("is not a machine: expected local, or ssh:HOST as in ssh:root@board", path=source)
        command = ["ssh", "-T", *ssh_options, *SSH_OPTIONS, "--", host, shlex.join(command)]
    try:
        # A session of its own: Ctrl-C is for us, who then end the recording and wait for what it printed.
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
    except FileNotFoundError as error:
        raise InputError(f"{command[0]} is not installed", path=source) from error
    with process:
        try:
            output, complaints = _talk(process, text.encode())
        except BaseException:
            process.terminate()  # asked twice: what it set up, it takes off
            raise
    if process.returncode:
        raise InputError(_why(process.returncode, complaints, is_ssh=source != LOCAL), path=source)
    return output.decode(errors="replace")


def _talk(process: subprocess.Popen[bytes], text: bytes) -> tuple[bytes, bytes]:
    from threading import Thread

    streams: dict[str, bytes] = {}

    def keep(name: str, stream: IO[bytes]) -> None:
        streams[name] = stream.read()

    assert process.stdin and process.stdout and process.stderr  # noqa: S101, PT018 - they are pipes, as asked for
    readers = [
        Thread(target=keep, args=("said", process.stdout), daemon=True),
        Thread(target=keep, args=("complaints", process.stderr), daemon=True),
    ]
    for reader in readers:
        reader.start()
    with suppress(BrokenPipeError):  # it ended: why, it says
        process.stdin.write(text)
        process.stdin.flush()
    try:
        for reader in readers:
            reader.join()
    except KeyboardInterrupt:
        _close(process.stdin)
        for reader in readers:
            reader.join()
    _close(process.stdin)
    process.wait()
    return streams["said"], streams["complaints"]


def _close(stream: IO[bytes]) -> None:
    with suppress(BrokenPipeError):
        stream.close()


def _why(status: int, complaints: bytes, *, is_ssh: bool) -> str:
    lines = complaints.decode(errors="replace").strip().splitlines()
    own = next((line.removeprefix("record.sh: ") for line in lines if line.startswith("record.sh: ")), "")
    if own:
        return f"cannot be recorded: {own}"
    last = lines[-1] if lines else f"status {status}"
    return f"ssh failed: {last}" if is_ssh and status == CONNECTION_BROKE else f"the recorder failed: {last}"
