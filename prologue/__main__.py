"""Entry point of the installed command and of ``python -m prologue``.

Standard streams may be closed, unbuffered, full, or read by a program that ended.
"""

import io
import os
import sys
from contextlib import suppress
from typing import NoReturn

from prologue.signals import ignore_signals, interrupt_if_one_waits, interrupt_on_signals


def run() -> NoReturn:
    """Run the command and end the process with its exit code.

    Everything else is loaded with the handlers in place: without them, Ctrl-C would print a traceback of the import.
    """
    _reopen_closed_streams()  # before the first file is opened
    _buffer_output()
    try:
        interrupt_on_signals()
        from prologue.cli.main import main

        try:
            code = main()
            interrupt_if_one_waits()
        finally:
            ignore_signals()
    except KeyboardInterrupt:
        ignore_signals()
        with suppress(OSError):  # a terminal that hung up
            print("prologue: interrupted\n", end="", file=sys.stderr, flush=True)
        code = 130
    _flush_or_drop()
    sys.exit(code)


def _flush_or_drop() -> None:
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


if __name__ == "__main__":
    run()
