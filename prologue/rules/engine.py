"""Runs rules over a subject; those that decide writing, before a plan is approved."""

from __future__ import annotations

from importlib import import_module
from typing import Final, NamedTuple

from prologue.errors import Location, RefusedError
from prologue.kernel.binary import Binary
from prologue.plan.edits import PatchPlan
from prologue.rules.base import FAILING, FINISH, Finding, Rule, Subject, Traced, run_hits

# Modules of this room, in the order of their codes: the rules that decide writing (decision 4). The build step loads
# these and no others, because it must start fast. So this list says which they are, not the rules.
_MODULES: Final = (
    "pl101_mcount_bounds_missing",
    "pl102_record_source_ambiguous",
    "pl103_record_reloc_type",
    "pl105_record_outside_text",
    "pl106_record_duplicate",
    "pl107_records_unsorted",
    "pl108_record_zero_unsafe",
    "pl110_records_mixed_form",
    "pl111_records_not_loaded",
    "pl112_record_table_lost",
    "pl113_offsets_relocated",
    "pl114_relocations_cut_off",
    "pl115_linked_table_lost",
    "pl201_site_not_pair",
    "pl202_sites_partly_patched",
    "pl203_site_after_bti_broken",
    "pl204_callops_literal_broken",
    "pl205_callops_with_kcfi",
    "pl207_paciasp_before_pair",
    "pl208_site_of_other_layout",
    "pl401_kernel_cannot_accept_moved_records",
    "pl402_marker_disagrees",
    "pl405_signature_broken",
    "pl407_kernel_ignores_marker",
    "pl408_bench_variant",
)


def load_rules(modules: tuple[str, ...]) -> tuple[Rule, ...]:
    """Load rules by the names of their modules."""
    return tuple(import_module(f"prologue.rules.{name}").RULE for name in modules)


DECIDING: Final = load_rules(_MODULES)


class Examination(NamedTuple):
    """Verdict of the rules on a file."""

    findings: tuple[Finding, ...]  # root causes first
    mended: Binary  # the file without the damage that can be mended; the file itself if there is none


def run_rules(subject: Subject, rules: tuple[Rule, ...]) -> tuple[Finding, ...]:
    """Return all findings: root causes in the order of the rules and of addresses, then those that follow from them."""
    return examine(subject, rules).findings


def examine(subject: Subject, rules: tuple[Rule, ...]) -> Examination:
    """Run the rules, and separate root causes from what follows from them."""
    hits, mended = run_hits(subject, rules), subject.binary
    if not subject.running and any(traced.severity in FAILING for traced in hits):
        from prologue.rules.roots import trace_to_roots  # the build step starts without it

        hits, mended = trace_to_roots(subject, hits)
    path = str(subject.binary.path)
    located = subject.binary.symbols.locate_all([traced.hit.vaddr for traced in hits]) if hits else []
    places = [where if hit.vaddr else Location(None) for where, (_, hit, _) in zip(located, hits, strict=True)]
    resumes = _resumes(subject.binary, hits)
    return Examination(
        tuple(
            traced.rule.finding(
                path, where, traced.hit, _fix(subject.binary, traced.rule, resumes=resumes), traced.follows_from
            )
            for traced, where in zip(hits, places, strict=True)
        ),
        mended,
    )


def _resumes(binary: Binary, hits: list[Traced]) -> bool:
    """Return whether ``patch`` would finish this file: interrupted, and with no damage that it refuses."""
    refused = {rule.code for rule in DECIDING if not rule.open_while_unfinished}
    refusing = (traced for traced in hits if traced.rule.code in refused and traced.severity != "info")
    return bool(hits) and binary.state == "unfinished" and not any(refusing)


def _fix(binary: Binary, rule: Rule, *, resumes: bool) -> str:
    """Return the advice, if it depends on the file."""
    if rule.open_while_unfinished and resumes:
        return FINISH
    return rule.fix_of_module if binary.relocatable else ""


class ApprovedPlan:
    """A plan that the rules passed. Only ``approve`` makes one, and the writer takes nothing else."""

    __slots__ = ("binary", "plan")

    def __init__(self, binary: Binary, plan: PatchPlan, *, _by: object = None) -> None:
        if _by is not _APPROVAL:
            raise TypeError("plans are approved by prologue.rules.engine.approve")
        self.binary = binary
        self.plan = plan


_APPROVAL = object()


def approve(binary: Binary, plan: PatchPlan) -> ApprovedPlan:
    """Let the rules that decide writing judge the file that the plan is for.

    Raises:
        RefusedError: one of them fires, except those that an unfinished file may violate.

    """
    require_sound(binary)
    if binary.state == "mixed":
        raise RefusedError("neither unprocessed nor left by an interrupted run: link it again", path=binary.path)
    return ApprovedPlan(binary, plan, _by=_APPROVAL)


def require_sound(binary: Binary) -> None:
    """Let the rules that decide writing judge the file.

    Raises:
        RefusedError: one of them fires, except those that an unfinished file may violate.

    """
    unfinished = binary.state == "unfinished"
    _refuse_findings(binary, tuple(rule for rule in DECIDING if not (unfinished and rule.open_while_unfinished)))


def require_table(binary: Binary) -> None:
    """Let the rules of group PL1 judge a file without a site: a table that was lost is no table that never was.

    Raises:
        RefusedError: one of them fires.

    """
    _refuse_findings(binary, tuple(rule for rule in DECIDING if rule.code.startswith("PL1")))


def _refuse_findings(binary: Binary, rules: tuple[Rule, ...]) -> None:
    bad = [finding for finding in run_rules(Subject(binary), rules) if finding.severity != "info"]
    if bad:
        first, roots = bad[0], [hit for hit in bad if not hit.follows_from]
        more = f" (and {len(roots) - 1} more: see `prologue verify`)" if len(roots) > 1 else ""
        raise RefusedError(
            f"{first.code} {first.slug}: {first.message}{more}; {first.fix}", path=binary.path, where=first.where
        )
