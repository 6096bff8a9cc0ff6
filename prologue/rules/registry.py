"""All rules: those that decide writing, the others, and those of companions. A test checks that no file is missing."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from prologue.companions import installed, why_absent
from prologue.errors import UsageError
from prologue.rules.base import Rule
from prologue.rules.engine import DECIDING, load_rules
from prologue.words import meant

# Modules of this room, in the order of their codes: those that do not decide writing.
_MODULES: Final = (
    "pl104_record_slot_and_addend_differ",
    "pl109_record_not_at_function",
    "pl206_pair_without_record",
    "pl301_site_in_untraceable_code",
    "pl302_branch_into_second_slot",
    "pl303_pointer_into_second_slot",
    "pl304_x9_live_at_entry",
    "pl305_site_overlaps_other_patcher",
    "pl306_trampoline_out_of_reach",
    "pl307_module_without_trampoline",
    "pl308_live_transition_unlisted",
    "pl309_jump_label_word",
    "pl310_conditional_transition",
    "pl403_edit_outside_plan",
    "pl404_image_stale",
    "pl406_build_id_shared",
    "pl409_relocations_changed",
)

_OF_COMPANIONS: Final = tuple(rule for each in installed() if each.rules for rule in each.load("rules").RULES)

RULES: Final[tuple[Rule, ...]] = tuple(
    sorted((*DECIDING, *load_rules(_MODULES), *_OF_COMPANIONS), key=attrgetter("code"))
)
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
    if why := why_absent(rule=name.upper()):
        return UsageError(f"no rule {name!r}: {why}")
    names = [each for rule in RULES for each in (rule.code, rule.slug)]
    near = meant(name.upper() if name.upper().startswith("PL") else name.lower(), names)
    return UsageError(f"no rule {name!r}: {near + ' ' if near else ''}`prologue rules` lists them")


def matches(rule: Rule, name: str) -> bool:
    """Return whether the name means this rule: its code or slug, or a group such as PL1."""
    return rule.slug == name.lower() or (name.upper().startswith("PL") and rule.code.startswith(name.upper()))
