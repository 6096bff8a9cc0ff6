"""Where the installed command and ``python -m prologue`` begin: signals and streams of this process, then all else."""

# What takes no time to load comes first: until the handlers are there, Ctrl-C makes Python print where it was.
# (signal proper is written in Python and loads enum; this is the built-in part of it.)
import _signal  # type: ignore[import-not-found]  # typeshed leaves it out
import os
import sys


def _leave(_number: int, _frame: object) -> None:
    """End at once: nothing is begun yet that would have to be cleaned up."""
    try:
        os.write(2, b"prologue: interrupted\n")
    finally:
        os._exit(130)


def _leave_on_signals() -> None:
    for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, _leave)


def run() -> None:
    """Be the command; does not return."""
    _leave_on_signals()
    _open_closed_streams()
    from prologue.cli.main import run_program

    run_program()


def _open_closed_streams() -> None:
    """Stand in for standard streams that are closed (``>&-``).

    Else a file that is opened gets their number. What is printed to the one that stands in for standard output cannot
    be written, as to a closed one.
    """
    for number, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # gets the lowest free number, which is this one
            os.set_inheritable(number, True)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - it is ours to the end
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - as above


if __name__ == "__main__":
    run()
