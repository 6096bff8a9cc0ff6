"""The recorder's script, run here or on a machine by ssh, and its output."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from prologue.live.tracefs.machine import TracedMachine, TracingScript, with_instance


def script() -> str:
    """Return the recorder, for any POSIX shell: one script of several files."""
    parts = [files("prologue.live.pokes").joinpath(name) for name in ("record.sh", "printing.sh")]
    return with_instance("".join(part.read_text(encoding="utf-8") for part in parts))


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
    output: list[bytes] = []
    recorder = TracingScript(script(), "record.sh", "cannot be recorded")
    TracedMachine(source, ssh_options).run(recorder, ["-e", *options], output.append)
    return b"".join(output).decode(errors="replace")
