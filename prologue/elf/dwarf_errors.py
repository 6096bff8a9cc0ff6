"""Errors of damaged DWARF, as one: pyelftools checks little, and damage ends in any of these."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prologue.errors import InputError


@contextmanager
def readable_dwarf(path: Path, what: str) -> Iterator[None]:
    """Turn every error of pyelftools into one of the input.

    Args:
        path: the file that is read.
        what: the tables that are read, for the message, such as "debug information".

    Raises:
        InputError: they are damaged.

    """
    from elftools.common.exceptions import DWARFError

    from prologue.elf.headers import PARSE_ERRORS

    try:
        yield
    except (*PARSE_ERRORS, DWARFError, AssertionError, AttributeError, NotImplementedError, TypeError) as error:
        raise InputError(f"{what} cannot be read ({str(error) or type(error).__name__})", path=path) from error
