"""Entry point: parse, call one handler, turn errors into one line and an exit code."""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module

from prologue.cli.parser import build_parser
from prologue.errors import PrologueError


def main(argv: list[str] | None = None) -> int:
    """Run the command line.

    Returns:
        0 clean; 1 findings; 2 bad input or usage; 3 our own failure; 4 machine lost (bench).

    """
    # One word per site is no work for a thread pool, and starting one costs more than the whole patch.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that temporary files go away
    args = build_parser().parse_args(argv)
    try:
        module, _, function = str(args.handler).partition(":")
        return int(getattr(import_module(module), function)(args))
    except PrologueError as error:
        if args.debug:
            raise
        print(f"prologue: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # `prologue scan ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("prologue: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if args.debug:
            raise
        print(f"prologue: our own failure: {type(error).__name__}: {error} (--debug shows where)", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
