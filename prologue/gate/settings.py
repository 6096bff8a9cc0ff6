"""Settings for one file: the command line, and a project's own; and what a release allows of them.

A project's own are in ``.prologue.toml``, or in ``[tool.prologue]`` of pyproject.toml.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from prologue.errors import UsageError
from prologue.rules.base import INPUTS, Rule
from prologue.rules.registry import RULES, matches, select_rules

SETTINGS: Final = ".prologue.toml"
_PYPROJECT: Final = "pyproject.toml"
_KEYS: Final = ("select", "ignore", "baseline", "release")
COMMAND_LINE: Final = "the command line"
_NAMED: Final = 5  # rules of a selection that a message names


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Settings of a project for ``verify``; the command line overrides them."""

    select: tuple[str, ...] = ()  # rules to run, all if empty
    ignore: tuple[str, ...] = ()
    baseline: Path | None = None
    release: bool = False
    path: Path | None = None  # where this was read, None if nothing was found


class LeftOut(NamedTuple):
    """A rule that does not run, and who wants it so."""

    rule: Rule
    how: Literal["ignored", "not selected"]
    source: str  # a settings file, or the command line

    @property
    def why(self) -> str:
        """Return the reason, as reports give it."""
        return f"{self.how} by {self.source}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of one file."""

    rules: tuple[Rule, ...]  # to run
    left_out: tuple[LeftOut, ...]  # all others
    baseline: Path | None
    release: bool
    path: Path | None  # the settings file, if there is one


def no_rule_applies(rules: Sequence[Rule], files: str) -> UsageError:
    """Return the error for a selection of which nothing applies: a report of nothing would read as clean."""
    needs = dict.fromkeys(INPUTS[kind] for rule in rules for kind in rule.inputs)
    names = ", ".join(rule.code for rule in rules[:_NAMED]) + (", ..." if len(rules) > _NAMED else "")
    return UsageError(
        f"no rule that is left applies to {files}: {names} judge {' or '.join(needs)}; "
        "select others (`prologue rules` says which input each one takes)"
    )


def settings_directory(argument: Path) -> Path:
    """Return the directory with the settings for a FILE: the one it is in, or itself if it is one.

    Symbolic links are followed, so that a file has the same settings under each of its names.
    """
    real = Path(os.path.realpath(argument))  # unlike Path.resolve, this does not fail if links form a loop
    return real if os.path.isdir(real) else real.parent  # noqa: PTH112 - Path.is_dir raises what opening will say


def combine(config: Config, *, select: tuple[str, ...], ignore: tuple[str, ...], baseline: Path | None) -> Settings:
    """Put settings and command line together: ``select`` and ``baseline`` replace, ``ignore`` adds.

    Raises:
        UsageError: a name that matches no rule, or no rule is left to run.

    """
    rules = select_rules(select or config.select, (*ignore, *config.ignore))
    file = str(config.path)

    def reason(rule: Rule) -> LeftOut:
        for names, source in ((ignore, COMMAND_LINE), (config.ignore, file)):
            if any(matches(rule, name) for name in names):
                return LeftOut(rule, "ignored", source)
        return LeftOut(rule, "not selected", COMMAND_LINE if select else file)

    return Settings(
        rules=rules,
        left_out=tuple(reason(rule) for rule in RULES if rule not in rules),
        baseline=baseline or config.baseline,
        release=config.release,
        path=config.path,
    )


def require_releasable(settings: Settings) -> None:
    """Refuse what a release must not leave out.

    Raises:
        UsageError: it would leave out another rule than those of PL3, or select some.

    """
    for rule, how, source in settings.left_out:
        path = None if source == COMMAND_LINE else source
        if how == "not selected":
            raise UsageError("a release runs every rule: remove --select (or select)", path=path)
        if not rule.release_may_leave_out:
            message = f"{rule.code} {rule.slug} is ignored, but a release may do without rules of PL3 only"
            raise UsageError(f"{message}: remove it from --ignore (or ignore)", path=path)


def left_out_notes(settings: Iterable[Settings]) -> list[str]:
    """Return the notes for reports: which rules did not run, and by whose choice."""
    notes: list[str] = []
    for setting in settings:
        by: dict[tuple[str, str], list[str]] = {}
        for rule, how, source in setting.left_out:
            by.setdefault((how, source), []).append(f"{rule.code} {rule.slug}")
        for (choice, source), names in by.items():
            if choice == "ignored":
                notes.append(f"ignored by {source}, did not run: {', '.join(names)}")
            else:
                ran = ", ".join(rule.code for rule in setting.rules)
                others = f"{len(names)} other rule{'s' if len(names) != 1 else ''}"
                notes.append(f"selected by {source}: {ran}; {others} did not run")
    return list(dict.fromkeys(notes))


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
