"""Parse, call one handler, turn errors into one line and an exit code."""

from __future__ import annotations

import argparse
import io
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from prologue import __version__
from prologue.cli.parser import build_parser
from prologue.cli.subcommands import call, top_package
from prologue.errors import InternalError, PrologueError
from prologue.report.terminal import note, set_terminal


def main(argv: list[str] | None = None) -> int:
    """Run the command line.

    Returns:
        0 clean; 1 findings; 2 bad input or usage; 3 internal error (a bug in prologue); 4 machine lost.

    Raises:
        SystemExit: from argparse, after help or a usage error.
        KeyboardInterrupt: as it comes.

    """
    # One word per site is no work for a thread pool, and starting one costs more than the whole patch.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    debug, begun = False, time.monotonic()
    words = sys.argv[1:] if argv is None else argv
    try:
        if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
            sys.stdout.reconfigure(errors="backslashreplace")  # file names need not be text, and must not end a run
        args = _parse(words)
        debug = args.debug
        set_terminal(color=args.color, quiet=args.quiet)
        if not args.handler:  # no command, or a group without one: a script's empty variable must not pass
            args.group.print_help()
            sys.stdout.flush()
            return 2
        code = int(call(args.handler, args))
        if args.verbose:
            most = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
            took = f"{time.monotonic() - begun:.1f} s, at most {most // 1024:,} MiB of memory in a process"
            note(f"prologue {__version__}: {took}")
        sys.stdout.flush()  # what cannot be written is an error of this run, too
        return code
    except BrokenPipeError:  # `prologue scan ... | head`
        return 128 + signal.SIGPIPE  # as of every tool: the reader did not get all the findings
    except Exception as error:
        if debug:
            import traceback

            with suppress(OSError):
                traceback.print_exception(error)
        code = _report(error)
        if debug or code == InternalError.exit_code:
            with suppress(OSError):  # as of what is said before
                print(bug_report(error, words), file=sys.stderr)
        return code


def _parse(words: list[str]) -> argparse.Namespace:
    if words == ["version"]:  # as of git and cargo
        words = ["--version"]
    try:
        args = build_parser(words[0] if words else "").parse_args(words)
    except SystemExit:
        sys.stdout.flush()  # help that cannot be printed
        raise
    args.command_line = ["prologue", *words]  # reports say how to repeat them
    return args


def _report(error: Exception) -> int:
    """Say in one line what went wrong; returns the exit code."""
    if isinstance(error, PrologueError) and not isinstance(error, InternalError):
        message, code = str(error), error.exit_code
    elif isinstance(error, OSError):  # a disk, a permission, a limit of this machine; printing has no file name
        message, code = f"{error.filename or 'input or output'}: {error.strerror}", 2
    elif isinstance(error, ModuleNotFoundError) and error.name and (package := top_package(error)) != "prologue":
        from prologue.installation import how_to_get

        message, code = f"{package}, which this command needs, is not installed: {how_to_get(package)}", 2
    elif isinstance(error, ImportError) and not (error.name or "").startswith("prologue"):
        *_, reason = str(error).strip().splitlines() or ["no reason given"]
        message, code = f"a library that is installed cannot be loaded ({reason}): install what it needs, or it anew", 2
    else:
        message, code = _unexpected(error)
    _complain(message)
    return code


def _unexpected(error: Exception) -> tuple[str, int]:
    """Return message and exit code of an error that nothing here raises: of an unknown library, or a bug."""
    from prologue.installation import check_installation

    try:
        check_installation()
    except PrologueError as unknown:
        return str(unknown), unknown.exit_code
    if isinstance(error, InternalError):
        return str(error), error.exit_code
    return f"internal error (a bug in prologue): {type(error).__name__}: {error} (--debug shows where)", 3


def _complain(message: str) -> None:
    from prologue.words import printable

    # A name, or what a board said, may hold anything; lines of ours after the first one are indented.
    lines = "\n  ".join(map(printable, message.split("\n  ")))
    with suppress(OSError):  # a terminal that hung up
        print(f"prologue: {lines}\n", end="", file=sys.stderr)  # one piece: a signal must not cut the line's end off


def bug_report(error: Exception, words: list[str]) -> str:
    """Describe a failed run in a block: versions, platform, command and kernels, without names of users and hosts."""
    import platform

    from prologue.installation import library_versions
    from prologue.words import printable

    lines = [f"prologue {__version__}, Python {platform.python_version()}, {platform.platform()}"]
    lines.append(", ".join(library_versions()) or "not installed: run from its source")
    lines += [f"command: prologue {' '.join(map(_anonymous, words))}", *_kernels(words)]
    lines.append(f"error: {type(error).__name__} at {_place(error)}: {_anonymous(str(error))}")
    return "\n".join(
        ["---- paste this into a report; CONTRIBUTING.md says where to send it", *map(printable, lines), "----"]
    )


def _anonymous(text: str) -> str:
    import re

    home = os.environ.get("HOME", "")
    text = text.replace(home, "~") if len(home) > 1 else text
    text = re.sub(r"(/(?:home|Users)/)[^/:=\s]+", r"\1USER", text)
    return re.sub(r"ssh:\S+", "ssh:HOST", text)


def _kernels(words: list[str]) -> Iterator[str]:
    """Yield release and build-id of each kernel and module that a command names; what cannot be read is left out."""
    from prologue.kernel.load import open_binary

    for path in dict.fromkeys(Path(part) for word in words for part in word.split("=") if part):
        with suppress(Exception):
            if path.is_file():
                binary = open_binary(path)
                yield f"{path.name}: {binary.release or 'release unknown'}, build-id {binary.build_id or 'none'}"


def _place(error: Exception) -> str:
    """Name the line that raised it, below the package."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "an unknown line"
    path = Path(trace.tb_frame.f_code.co_filename)
    return f"{'/'.join(path.parts[-3:])}:{trace.tb_lineno}"
