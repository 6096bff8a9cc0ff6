"""A script typed into a shell, on a serial line as over ssh: nothing but a POSIX shell is needed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from prologue_bench.errors import GuestLostError

_SCRIPT: Final = "/tmp/prologue-record.sh"  # noqa: S108 - on the board, which is ours for the time of the boot
_LINE: Final = 700  # busybox's line editor takes 1023 characters, labgrid adds to ours
# What may stand in a single-quoted format of printf as it is; no tabs, which an interactive shell would complete.
_PLAIN: Final = frozenset(range(0x20, 0x7F)) - frozenset(b"'\\%!-")


def run_typed(shell: Any, text: str, deadline: float) -> list[str]:
    """Bring a script to the board, in pieces, by printf, and run it there; return the lines it printed.

    Args:
        shell: a labgrid driver that runs commands.
        text: the script.
        deadline: when it must have ended, as one of ``time.monotonic``.

    Raises:
        GuestLostError: it did not arrive whole.

    """
    # A kernel message in the middle of a line would spoil it. A panic still shows.
    shell.run(f"dmesg -n 1; : >{_SCRIPT}")
    for piece in _pieces(text.encode()):
        shell.run_check(f"printf '{piece}' >>{_SCRIPT}")
    sent, arrived = len(text.encode()), shell.run_check(f"wc -c <{_SCRIPT}")[-1].strip()
    if arrived != str(sent):
        raise GuestLostError(f"only {arrived} of the script's {sent} bytes arrived: set the console's txdelay")
    left = max(deadline - time.monotonic(), 1)
    lines, errors, _ = shell.run(f"sh {_SCRIPT} 2>&1", timeout=left, decodeerrors="replace")
    return [*lines, *errors]


def _pieces(text: bytes) -> Iterator[str]:
    """Split the text into formats of printf, each short enough for a line."""
    piece = ""
    for byte in text:
        piece += chr(byte) if byte in _PLAIN else f"\\{byte:03o}"
        if len(piece) >= _LINE:
            yield piece
            piece = ""
    if piece:
        yield piece
