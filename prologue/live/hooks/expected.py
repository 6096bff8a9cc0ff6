"""Listeners that are known: a file that gives each a reason and an owner, so that ``live hooks`` fails for new ones."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from prologue.errors import InputError
from prologue.live.hooks.inventory import Inventory
from prologue.live.hooks.listener import Listener

_REQUIRED: Final = ("kind", "reason", "owner")
EVERYWHERE: Final = "every traced function"
"""The place of a listener that listens to everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """An entry: which listeners it covers, why they are welcome, and who decided that; globs but for the kind."""

    kind: str
    reason: str
    owner: str
    name: str = "*"
    where: str = "*"  # each place, as it is listed: FUNCTION+OFFSET, a tracepoint, "every traced function"
    calls: str = "*"  # each function that is called, as it is listed: SYMBOL, SYMBOL [MODULE]


def load_expected(path: Path) -> tuple[Expected, ...]:
    """Read the entries of a file, in its order.

    Raises:
        InputError: it cannot be read, or an entry is wrong or not filled in.

    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, nested too deeply
        raise InputError(f"is not valid TOML: {error}", path=path) from error
    entries = document.pop("expected", [])
    if document or not isinstance(entries, list):
        raise InputError("expected a list of [[expected]], and nothing else", path=path)
    return tuple(_entry(path, number, entry) for number, entry in enumerate(entries, 1))


def _entry(path: Path, number: int, entry: Any) -> Expected:
    names = [field.name for field in fields(Expected)]
    for key, value in entry.items() if isinstance(entry, dict) else [("", "")]:
        if key not in names or not isinstance(value, str):
            message = f"[[expected]] number {number}: {key!r} is no text with one of the keys {', '.join(names)}"
            raise InputError(message, path=path)
    for key in _REQUIRED:
        if not entry.get(key, "").strip():
            raise InputError(f"[[expected]] number {number}: {key} is missing or empty: fill it in", path=path)
    return Expected(**entry)


def expected_by(inventory: Inventory, entries: Sequence[Expected]) -> dict[int, Expected]:
    """Return the first entry that covers a listener, by the listener's number; the others are new.

    An entry covers a listener if its globs match every place and every function that is called.
    """
    covered = {}
    for number, listener in enumerate(inventory.listeners):
        places = _places(inventory, listener)
        calls = [inventory.owners.name(vaddr) for _, vaddr in listener.callbacks]
        entry = next((each for each in entries if _covers(each, listener, places, calls)), None)
        if entry is not None:
            covered[number] = entry
    return covered


def _places(inventory: Inventory, listener: Listener) -> list[str]:
    if listener.functions is None:
        return [EVERYWHERE]
    return [*map(inventory.owners.name, listener.functions), *(point for _, point in listener.points)]


def _covers(entry: Expected, listener: Listener, places: list[str], calls: list[str]) -> bool:
    if entry.kind != listener.kind or not fnmatchcase(listener.name, entry.name):
        return False
    return all(fnmatchcase(place, entry.where) for place in places) and all(
        fnmatchcase(call, entry.calls) for call in calls
    )
