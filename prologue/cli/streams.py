"""Standard streams of the command: closed, unbuffered, full, or read by a program that ended."""

from __future__ import annotations

import io
import os
import sys


def prepare_streams() -> None:
    """Make standard streams that can be used, before the first file is opened."""
    _reopen_closed_streams()
    _buffer_output()


def flush_or_drop() -> None:
    """Write what is still in the buffer, or let it go: Python would complain about it and end with 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # a full device, a pipe that nothing reads, a terminal that hung up
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _reopen_closed_streams() -> None:
    """Open /dev/null for closed streams (``>&-``): the next file that is opened would get descriptor 0, 1 or 2.

    Writing to standard output then fails, as it does to a closed one.
    """
    for number, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # gets the lowest free number, which is this one
            os.set_inheritable(number, True)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - open until the process ends
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - as above


def _buffer_output() -> None:
    """Buffer output: with PYTHONUNBUFFERED, Python drops what a write leaves over (a full disk) in silence."""
    raw = getattr(sys.stdout, "buffer", None)
    if isinstance(raw, io.RawIOBase):
        encoding, errors = sys.stdout.encoding, sys.stdout.errors
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors, line_buffering=True)
