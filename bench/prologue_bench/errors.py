"""Errors around a bench run, as a branch of the tool's own error tree."""

from __future__ import annotations

from prologue.errors import PrologueError


class BenchError(PrologueError):
    """Base of all errors that only the bench raises."""

    exit_code = 2


class MissingToolError(BenchError):
    """A program or file that the bench needs is not installed."""


class UnreachableError(BenchError):
    """A package archive cannot be reached."""


class GuestLostError(BenchError):
    """A booted machine hung, panicked or never reported what it was asked for."""

    exit_code = 4
