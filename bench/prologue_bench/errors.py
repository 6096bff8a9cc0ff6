"""What can go wrong around a bench run: one line each, what and what to do."""

from __future__ import annotations


class BenchError(Exception):
    """Base of all errors that the bench raises on purpose; ``exit_code`` is what a program ends with."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class MissingToolError(BenchError):
    """A program or file that the bench needs is not installed."""


class UnreachableError(BenchError):
    """A package archive cannot be reached."""


class GuestLostError(BenchError):
    """A booted machine hung, panicked or never said what it was asked for."""

    exit_code = 4
