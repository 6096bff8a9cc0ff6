"""All rules, found by their files: a rule is registered if its file is there."""

from __future__ import annotations

import re
from pkgutil import iter_modules
from typing import Final

from prologue.errors import UsageError
from prologue.rules import __path__
from prologue.rules.base import Rule
from prologue.rules.deciding import load_rules
from prologue.rules.running import RULES_OF_WHAT_RUNS
from prologue.words import meant

# Each rule with a check is a file of this room, and those of what runs are one table.
_FILES: Final = sorted(module.name for module in iter_modules(__path__) if re.match(r"pl\d{3}_", module.name))

RULES: Final = (*load_rules(_FILES), *RULES_OF_WHAT_RUNS)
"""All rules, in the order of their codes."""


def find_rule(name: str) -> Rule:
    """Look a rule up by code or slug.

    Raises:
        UsageError: no rule has that name.

    """
    for rule in RULES:
        if name.upper() == rule.code or name.lower() == rule.slug:
            return rule
    raise _unknown(name)


def select_rules(select: tuple[str, ...], ignore: tuple[str, ...]) -> tuple[Rule, ...]:
    """Return the selected rules (all by default) less those ignored; a prefix such as PL1 names a group.

    Raises:
        UsageError: a name that matches no rule, or no rule is left to run.

    """
    for name in (*select, *ignore):
        if not any(matches(rule, name) for rule in RULES):
            raise _unknown(name)
    rules = tuple(
        rule
        for rule in RULES
        if (not select or any(matches(rule, name) for name in select))
        and not any(matches(rule, name) for name in ignore)
    )
    if not rules:
        problem = "every rule is ignored" if not select else "every selected rule is also ignored"
        raise UsageError(f"{problem} (select and ignore): nothing would be checked; ignore fewer")
    return rules


def _unknown(name: str) -> UsageError:
    near = meant(name.upper() if name.upper().startswith("PL") else name.lower(), _names())
    return UsageError(f"no rule {name!r}: {near + ' ' if near else ''}`prologue rules` lists them")


def _names() -> list[str]:
    return [name for rule in RULES for name in (rule.code, rule.slug)]


def matches(rule: Rule, name: str) -> bool:
    """Return whether the name means this rule: its code or slug, or a group such as PL1."""
    return rule.slug == name.lower() or (name.upper().startswith("PL") and rule.code.startswith(name.upper()))
