"""The recorder's script, run here or on a machine by ssh, and its output."""

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
    """Return the recorder, for any POSIX shell: one script of two files."""
    parts = [files("prologue.live.pokes").joinpath(name) for name in ("record.sh", "printing.sh")]
    return "".join(part.read_text(encoding="utf-8") for part in parts)


def record(source: str, options: Sequence[str], ssh_options: Sequence[str] = ()) -> str:
    """Record until the recorder ends; an interrupt ends the recording, too.

    Args:
        source: ``local`` or ``ssh:HOST``.
        options: of the script, and the command that it is to run.
        ssh_options: words for ssh, before its host.

    Returns:
        The text that the script printed.

    Raises:
        InputError: ``source`` is no machine, ssh failed, or the recorder says why it cannot record.

    """
    text = script()
    # No other program may read the script or input after it: so the shell gets it byte by byte, and its standard input
    # stays open as long as it is to record.
    shell = f'eval "$(dd bs=1 count={len(text.encode())} 2>/dev/null)"'
    command = ["sh", "-c", shell, "record.sh", "-e", *options]
    if source != LOCAL:
        host = source.removeprefix("ssh:")
        if not source.startswith("ssh:") or not host or host.startswith("-"):
            raise InputError("is not a machine: expected local, or ssh:HOST as in ssh:root@board", path=source)
        command = ["ssh", "-T", *ssh_options, *SSH_OPTIONS, "--", host, shlex.join(command)]
    try:
        # A session of its own: Ctrl-C is for this process, which then ends the recording and waits for its output.
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
    except FileNotFoundError as error:
        raise InputError(f"{command[0]} is not installed", path=source) from error
    with process:
        try:
            output, complaints = _talk(process, text.encode())
        except BaseException:
            process.terminate()  # interrupted twice: the script takes its probes off
            raise
    if process.returncode:
        raise InputError(_failure(process.returncode, complaints, is_ssh=source != LOCAL), path=source)
    return output.decode(errors="replace")


def _talk(process: subprocess.Popen[bytes], text: bytes) -> tuple[bytes, bytes]:
    from threading import Thread

    streams: dict[str, bytes] = {}

    def keep(name: str, stream: IO[bytes]) -> None:
        streams[name] = stream.read()

    assert process.stdin and process.stdout and process.stderr  # noqa: S101, PT018 - Popen was told to make pipes
    readers = [
        Thread(target=keep, args=("output", process.stdout), daemon=True),
        Thread(target=keep, args=("complaints", process.stderr), daemon=True),
    ]
    for reader in readers:
        reader.start()
    with suppress(BrokenPipeError):  # it ended, and prints the reason
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
    return streams["output"], streams["complaints"]


def _close(stream: IO[bytes]) -> None:
    with suppress(BrokenPipeError):
        stream.close()


def _failure(status: int, complaints: bytes, *, is_ssh: bool) -> str:
    lines = complaints.decode(errors="replace").strip().splitlines()
    own = next((line.removeprefix("record.sh: ") for line in lines if line.startswith("record.sh: ")), "")
    if own:
        return f"cannot be recorded: {own}"
    last = lines[-1] if lines else f"status {status}"
    return f"ssh failed: {last}" if is_ssh and status == CONNECTION_BROKE else f"the recorder failed: {last}"
