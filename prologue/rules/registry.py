"""All rules, each named once; a test checks that none is missing."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from prologue.errors import UsageError
from prologue.rules.base import Rule

# Modules of this room, in the order of their codes: each has a RULE.
_MODULES: Final = (
    "pl101_mcount_bounds_missing",
    "pl102_record_source_ambiguous",
    "pl103_record_reloc_type",
    "pl104_record_slot_and_addend_differ",
    "pl105_record_outside_text",
    "pl106_record_duplicate",
    "pl107_records_unsorted",
    "pl108_record_zero_unsafe",
    "pl109_record_not_at_function",
    "pl110_records_mixed_form",
    "pl201_site_not_pair",
    "pl202_sites_partly_patched",
    "pl203_site_after_bti_broken",
    "pl204_callops_literal_broken",
    "pl205_callops_with_kcfi",
    "pl206_pair_without_record",
    "pl207_paciasp_before_pair",
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
    "pl401_kernel_cannot_accept_moved_records",
    "pl402_marker_disagrees",
    "pl403_edit_outside_plan",
    "pl404_image_stale",
    "pl405_signature_broken",
    "pl406_build_id_shared",
    "pl408_bench_variant",
)

RULES: tuple[Rule, ...] = tuple(import_module(f"prologue.rules.{name}").RULE for name in _MODULES)


def find_rule(name: str) -> Rule:
    """Look a rule up by code or slug.

    Raises:
        UsageError: no rule has that name.

    """
    for rule in RULES:
        if name.upper() == rule.code or name.lower() == rule.slug:
            return rule
    raise UsageError(f"no rule {name!r}: `prologue rules` lists them")


def select_rules(select: tuple[str, ...], ignore: tuple[str, ...]) -> tuple[Rule, ...]:
    """Rules to run: those selected (all by default) less those ignored; a prefix such as PL1 names a group.

    Raises:
        UsageError: a name that matches no rule, or no rule is left to run.

    """
    for name in (*select, *ignore):
        if not any(_matches(rule, name) for rule in RULES):
            raise UsageError(f"no rule {name!r}: `prologue rules` lists them")
    rules = tuple(
        rule
        for rule in RULES
        if (not select or any(_matches(rule, name) for name in select))
        and not any(_matches(rule, name) for name in ignore)
    )
    if not rules:
        raise UsageError("every selected rule is also ignored: nothing would be checked")
    return rules


def _matches(rule: Rule, name: str) -> bool:
    return rule.slug == name.lower() or (name.upper().startswith("PL") and rule.code.startswith(name.upper()))
