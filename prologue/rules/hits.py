"""Runs rules: hits, before they have places and words for a report."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from prologue.rules.base import Hit, Rule, Subject

Key = tuple[str, int]  # code and address of a finding


class Traced(NamedTuple):
    """A hit with its rule, and the codes of the root causes that it follows from; none for a root."""

    rule: Rule
    hit: Hit
    follows_from: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """Fields that stay the same after another damage was mended."""
        return self.rule.code, self.hit.vaddr


def run_hits(subject: Subject, rules: tuple[Rule, ...]) -> list[Traced]:
    """Run the rules, and return all hits in their order."""
    subject = replace(subject, codes=frozenset(rule.code for rule in rules))
    # Two entries of one table may name the same place: report it once.
    return [
        Traced(rule, hit)
        for rule in rules
        if rule.check is not None and not subject.inputs.isdisjoint(rule.inputs)
        for hit in dict.fromkeys(rule.check(subject))
    ]
