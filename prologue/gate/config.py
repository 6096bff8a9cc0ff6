"""Settings of a project: ``.prologue.toml``, or ``[tool.prologue]`` in pyproject.toml."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from prologue.errors import UsageError
from prologue.rules.registry import select_rules

SETTINGS: Final = ".prologue.toml"
_PYPROJECT: Final = "pyproject.toml"
_KEYS: Final = ("select", "ignore", "baseline", "release")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Settings of a project for ``verify``; the command line overrides them."""

    select: tuple[str, ...] = ()  # rules to run, all if empty
    ignore: tuple[str, ...] = ()
    baseline: Path | None = None
    release: bool = False
    path: Path | None = None  # where this was read, None if nothing was found


def load_config(directory: Path) -> Config:
    """Read the settings of a directory; nothing above it counts (decision 13).

    ``.prologue.toml`` comes before pyproject.toml; a pyproject.toml without ``[tool.prologue]`` is skipped.

    Raises:
        UsageError: a settings file that cannot be read, or that has wrong settings.

    """
    for name in (SETTINGS, _PYPROJECT):
        path = Path(os.path.realpath(directory)) / name
        table = _table(path)
        if table is not None:
            return _config(path, table)
    return Config()


def load_config_file(path: Path) -> Config:
    """Read the settings file that was named.

    Raises:
        UsageError: it is missing, cannot be read, has no ``[tool.prologue]``, or has wrong settings.

    """
    path = path.absolute()
    table = _table(path)
    if table is None:
        missing = "no [tool.prologue] in it" if path.is_file() else "no such file"
        raise UsageError(f"{missing}: name a file with prologue's settings", path=path)
    return _config(path, table)


def _table(path: Path) -> dict[str, Any] | None:
    """Return prologue's settings in a file; None if there is no such file, or none of them in it."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
    except OSError as error:
        # Then the file that they would be for cannot be opened either, and that error says what is wrong.
        if not (os.path.isdir(path.parent) and os.access(path.parent, os.X_OK)):  # noqa: PTH112 - is_dir may raise
            return None
        raise UsageError(f"cannot read the settings: {error.strerror}", path=path) from error
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, nested too deeply
        raise UsageError(f"is not valid TOML: {error}", path=path) from error
    if path.name != _PYPROJECT:
        return document
    tool = document.get("tool")
    table = tool.get("prologue") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise UsageError("tool.prologue must be a table", path=path)
    return table


def _config(path: Path, table: dict[str, Any]) -> Config:
    for key in table:
        if key not in _KEYS:
            raise UsageError(f"unknown setting {key!r}: the settings are {', '.join(_KEYS)}", path=path)
    select, ignore = _names(path, table, "select"), _names(path, table, "ignore")
    try:
        select_rules(select, ignore)
    except UsageError as error:
        raise UsageError(error.message, path=path) from error
    release = table.get("release", False)
    if not isinstance(release, bool):
        raise UsageError(f"release must be true or false, not {release!r}", path=path)
    return Config(select=select, ignore=ignore, baseline=_baseline(path, table), release=release, path=path)


def _names(path: Path, table: dict[str, Any], key: str) -> tuple[str, ...]:
    names = table.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UsageError(f'{key} must be a list of rules such as ["PL1", "PL203"], not {names!r}', path=path)
    if key == "select" and key in table and not names:
        raise UsageError('select names no rule: name some such as ["PL1", "PL203"], or remove it to run all', path=path)
    return tuple(names)


def _baseline(path: Path, table: dict[str, Any]) -> Path | None:
    """Return the path of the baseline; a relative one is relative to the settings file's directory.

    Links and ``..`` are followed: a file is one baseline, whose counts are of a whole run, under each of its names.
    """
    if "baseline" not in table:
        return None
    name = table["baseline"]
    if not isinstance(name, str) or not name or "\0" in name:
        raise UsageError(f"baseline must be the path of a file, not {name!r}", path=path)
    return Path(os.path.realpath(path.parent / name))
