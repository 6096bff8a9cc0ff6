"""Reads a guest's console: JSON lines after a token, kernel messages, or nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

LAST_LINES: Final = 15  # of a console or a log, shown when a machine is lost
WITH_TRACE: Final = 25  # the same, if it may be a panic with its trace
# After an event: nothing, or a kernel message that was printed before the terminal had its line's end.
_REST: Final = re.compile(r"\s*(\[ *\d+\.\d{6}\].*)?")


@dataclass(frozen=True, slots=True)
class Event:
    """A line of the guest's init: its name and its other members."""

    name: str
    data: dict[str, Any]


def parse_line(line: str, token: str) -> Event | None:
    """Return the event in a console line, None if it holds none.

    A kernel message may have been printed on the same line before or after it; a torn line is no event. Where the power
    failed in the middle of a line, the next boot goes on in it.
    """
    marker = f"@{token} "
    at = line.find(marker)
    while at >= 0:
        text = line[at + len(marker) :]
        with suppress(ValueError, RecursionError):
            data, end = json.JSONDecoder().raw_decode(text)
            if isinstance(data, dict) and "event" in data and _REST.fullmatch(text, end):
                return Event(str(data.pop("event")), data)
        at = line.find(marker, at + 1)
    return None


def parse(lines: Iterable[str], token: str) -> list[Event]:
    """Return all events of a console log."""
    return [event for line in lines if (event := parse_line(line, token)) is not None]


def tail(lines: Sequence[str], count: int = LAST_LINES) -> str:
    """Return the last lines that are not blank, indented, for the end of an error; says so if there are none."""
    return "\n  ".join([line for line in lines if line.strip()][-count:] or ["(nothing)"])


def console_end(lines: Sequence[str], log: Path | None, count: int = LAST_LINES) -> str:
    """Say where the console is, if it is kept, and its last lines, for the end of an error."""
    return f"console{f' in {log}' if log else ''}, its end:\n  {tail(lines, count)}"
