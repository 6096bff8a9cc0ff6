"""Entry point: parse, call one handler, turn errors into one line and an exit code."""

from __future__ import annotations

import argparse
import gc
import io
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module

from prologue.cli.parser import build_parser
from prologue.cli.signals import ignore_signals, interrupt_if_one_waits, interrupt_on_signals
from prologue.errors import PrologueError


def main(argv: list[str] | None = None) -> int:
    """Run the command line.

    Returns:
        0 clean; 1 findings; 2 bad input or usage; 3 internal error (a bug in prologue); 4 machine lost (bench).

    Raises:
        SystemExit: from argparse, after help or a usage error.

    """
    # One word per site is no work for a thread pool, and starting one costs more than the whole patch.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    debug = False
    try:
        interrupt_on_signals()
        _print_every_name()
        args = _parse(sys.argv[1:] if argv is None else argv)
        debug = args.debug
        module, _, function = str(args.handler).partition(":")
        code = int(getattr(import_module(module), function)(args))
        interrupt_if_one_waits()
        sys.stdout.flush()  # what cannot be written is an error of this run, too
        return code
    except KeyboardInterrupt:
        _complain("interrupted")
        return 130
    except BrokenPipeError:  # `prologue scan ... | head`
        _drop_output()
        return 128 + signal.SIGPIPE  # as of every tool: the reader did not get all the findings
    except Exception as error:
        if debug:
            _show_traceback(error)
        return _report(error)


def run_program() -> None:
    """Be the installed command: run, and end at once.

    Tearing the interpreter down takes as long as some commands, and a signal
    that comes then would have the default action, although the work is done.
    """
    # Loading numpy makes some 60,000 objects and no garbage; Python would look through them again and again.
    gc.set_threshold(50_000)
    _write_everything()
    try:
        try:
            code = main()
        except SystemExit as end:  # argparse ends so
            code = end.code if isinstance(end.code, int) else 2
        ignore_signals()
    except KeyboardInterrupt:  # a second one, while the first was being reported, or one after all was done
        code = 130
    ignore_signals()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


def _parse(words: list[str]) -> argparse.Namespace:
    try:
        return build_parser(words[0] if words else "").parse_args(words)
    except SystemExit:
        sys.stdout.flush()  # help that cannot be printed
        raise


def _write_everything() -> None:
    """With PYTHONUNBUFFERED, Python drops what a write leaves over (a full disk, ``ulimit -f``) and reports nothing."""
    raw = getattr(sys.stdout, "buffer", None)
    if isinstance(raw, io.RawIOBase):
        encoding, errors = sys.stdout.encoding, sys.stdout.errors
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors, line_buffering=True)


def _print_every_name() -> None:
    """File names need not be text; one that cannot be printed must not end a run half-way."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _report(error: Exception) -> int:
    """Say in one line what went wrong; returns the exit code."""
    if isinstance(error, PrologueError):
        said, code = str(error), error.exit_code
    elif isinstance(error, OSError):  # a disk, a permission, a limit of this machine; printing has no file name
        said, code = f"{error.filename or 'input or output'}: {error.strerror}", 2
    else:
        said, code = f"internal error (a bug in prologue): {type(error).__name__}: {error} (--debug shows where)", 3
    _complain(said)
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()
    return code


def _show_traceback(error: Exception) -> None:
    import traceback

    with suppress(OSError):
        traceback.print_exception(error)


def _complain(said: str) -> None:
    from prologue.report.printable import printable

    # A name, or what a board said, may hold anything; lines of ours after the first one are indented.
    lines = "\n  ".join(map(printable, said.split("\n  ")))
    with suppress(OSError):  # a terminal that hung up
        print(f"prologue: {lines}\n", end="", file=sys.stderr)  # one piece: a signal must not cut the line's end off


def _drop_output() -> None:
    """Let what is still in the buffer go nowhere, or the interpreter complains once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    run_program()
