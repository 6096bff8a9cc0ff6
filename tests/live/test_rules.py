"""Rules of what runs have no check: audits, hooks and the judge of writes report them."""

from __future__ import annotations

from prologue.live.audit.run import REPORTED
from prologue.live.hooks.run import REPORTED as REPORTED_HOOKS
from prologue.live.pokes.violations import CHECKS
from prologue.rules.registry import RULES


def test_a_rule_without_a_check_is_about_no_file() -> None:
    """Audits and the judge of writes find what these report: a file would be called clean that nothing looked at."""
    without = {rule.code: set(rule.inputs) for rule in RULES if rule.check is None}
    assert without
    assert {kind for inputs in without.values() for kind in inputs} == {"C", "W"}
    assert set(CHECKS) == {rule.code for rule in RULES if "W" in rule.inputs}
    assert {code for code, inputs in without.items() if "C" in inputs} == REPORTED | REPORTED_HOOKS
