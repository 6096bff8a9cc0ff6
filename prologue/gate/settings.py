"""Combines the settings for one file: the command line and the file's own, and what a release allows of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from prologue.errors import UsageError
from prologue.gate.config import Config
from prologue.rules.base import INPUTS, Rule
from prologue.rules.registry import RULES, matches, select_rules

COMMAND_LINE: Final = "the command line"
_NAMED: Final = 5  # rules of a selection that a message names


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
