"""Entry point of the installed command and of ``python -m prologue``."""

import sys
from contextlib import suppress
from typing import NoReturn

from prologue.cli.streams import flush_or_drop, prepare_streams
from prologue.signals import ignore_signals, interrupt_if_one_waits, interrupt_on_signals


def run() -> NoReturn:
    """Run the command and end the process with its exit code.

    Everything else is loaded with the handlers in place: without them, Ctrl-C would print a traceback of the import.
    """
    prepare_streams()
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
    flush_or_drop()
    sys.exit(code)


if __name__ == "__main__":
    run()
