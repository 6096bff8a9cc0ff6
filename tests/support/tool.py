"""The tool as a test calls it: its words, how it ends, and what it prints."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from prologue.cli.main import main


class Printed(NamedTuple):
    """What one command printed, and its exit code."""

    out: str
    err: str
    status: int

    @property
    def json(self) -> Any:
        """The document on stdout."""
        return json.loads(self.out)


class Tool:
    """Runs commands in this process; what was printed before one is not of it."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: object, status: int | None = 0) -> Printed:
        """Run ``prologue WORDS``, which must end with this exit code; None: with any."""
        self._capsys.readouterr()
        try:
            end = main([str(word) for word in words])
        except SystemExit as left:  # of argparse
            end = left.code if isinstance(left.code, int) else 1
        printed = Printed(*self._capsys.readouterr(), end)
        assert status in (None, end), f"exit code {end}, not {status}: {printed.out}{printed.err}"
        return printed


def as_format(form: str) -> list[str]:
    """Return the options that choose a form: JSON has its own."""
    return ["--json"] if form == "json" else ["--format", form]
