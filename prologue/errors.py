"""Errors as data: what went wrong, where, what to do.

One tree, so that the command line maps a class to an exit code and prints one line.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Final

from prologue.words import at_offset


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a file: printed as ``symbol+0x4 (section+0x1a2c, 0xffff800008010000)``.

    Modules have no addresses before they are loaded: there ``vaddr`` is None and not printed.
    """

    vaddr: int | None
    _: KW_ONLY
    section: str | None = None
    section_offset: int = 0
    symbol: str | None = None
    symbol_offset: int = 0

    def __str__(self) -> str:
        parts = [] if self.section is None else [f"{self.section}+{self.section_offset:#x}"]
        inner = ", ".join([*parts, *([] if self.vaddr is None else [f"{self.vaddr:#x}"])])
        if self.symbol is None:
            return f"({inner})" if inner else "(the file)"
        return f"{at_offset(self.symbol, self.symbol_offset)} ({inner})"


UNDECIDED: Final = 5
"""The exit code of a command that found nothing wrong, and could not decide everything that it was asked."""


class PrologueError(Exception):
    """Base of all errors that we raise on purpose; ``exit_code`` is what the command line ends with."""

    exit_code = 3

    def __init__(self, message: str, *, path: object = None, where: Location | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.where = where

    def __str__(self) -> str:
        parts = [str(part) for part in (self.path, self.where) if part is not None]
        return ": ".join([*parts, self.message])

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle all fields: errors come back from worker processes, and must not lose what keywords gave them."""
        return _restore, (type(self), self.message, self.path, self.where)


def _restore(kind: type[PrologueError], message: str, path: object, where: Location | None) -> PrologueError:
    return kind(message, path=path, where=where)


class UsageError(PrologueError):
    """The command line asks for something that makes no sense."""

    exit_code = 2


class InputError(PrologueError):
    """A file that we were given is not what it must be."""

    exit_code = 2


class InstallationError(PrologueError):
    """A library of another version than prologue works with is installed."""

    exit_code = 2


class UndecidedError(PrologueError):
    """A file is what it should be, and nothing in it decides what was asked."""

    exit_code = UNDECIDED


class OutputError(PrologueError):
    """The result could not be written: a copy did not appear; the same command finishes a file in place."""

    exit_code = 2


class RefusedError(PrologueError):
    """The input is well formed, but writing would be unsafe."""

    exit_code = 2


class BusyError(OutputError):
    """Another process is writing this very file."""


class InternalError(PrologueError):
    """Promise of ours that was broken: what was written does not read back as planned."""

    exit_code = 3
