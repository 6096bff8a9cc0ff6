"""The verdict of ``prologue verify``, before a report format is chosen: what fails, and when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from prologue.gate.baseline import BaselineSplit, Known, baseline_notes, in_scope, load_baseline, split
from prologue.gate.identity import FileIdentity, verification_date
from prologue.gate.refusal import GATE, REQUIRE, Required, refusals
from prologue.gate.settings import Settings, left_out_notes
from prologue.gate.verify import Facts, Unverified, Verified
from prologue.rules.base import FAILING, Finding, Input, Rule, Severity
from prologue.rules.registry import find_rule

_FAILING_RELEASE: Final[tuple[Severity, ...]] = (*FAILING, "warn")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Content of a report."""

    files: list[str]
    findings: list[Finding]  # new ones
    baselined: list[tuple[Finding, Known]]
    notes: list[str]
    exceptions: list[str]  # notes, too: which rules did not run, which findings are known, and by whose choice
    release: bool
    require: Required | None
    failing: tuple[Severity, ...]
    settings: dict[str, Settings]  # of each file
    facts: dict[str, Facts]  # of each file that was verified
    inputs: dict[str, frozenset[Input]]  # what kind of input each of these was
    refused: list[Finding]  # by the gate, without a rule
    unreadable: dict[str, str]  # files that could not be verified, and why
    identities: dict[str, FileIdentity]  # of each file
    compared: tuple[FileIdentity, ...]  # of kernels of modules, and of files that were compared
    date: str  # of the verification, in UTC

    @property
    def failed(self) -> bool:
        """True if a finding makes ``verify`` fail."""
        return any(finding.severity in self.failing for finding in self.findings + self.refused)

    @property
    def passed(self) -> bool:
        """True if every file was verified and nothing fails."""
        return not self.failed and not self.unreadable

    def rules_run(self, path: str) -> int:
        """Count the rules that ran on a file: not left out, and made for such a file."""
        inputs = self.inputs.get(path, frozenset())
        return sum(1 for rule in self.settings[path].rules if not inputs.isdisjoint(rule.inputs))

    @property
    def gate_rules(self) -> tuple[Rule, ...]:
        """Refusals that this run could make: cases of their own in test reports."""
        return (GATE,) * self.release + (REQUIRE,) * (self.require is not None)


class JudgedFile(NamedTuple):
    """A file: its result, and what applied to it."""

    result: Verified | Unverified
    settings: Settings


def judge(
    files: Sequence[JudgedFile], *, release: bool, require: Required | None = None, notes: Sequence[str] = ()
) -> Verdict:
    """Set known findings aside and decide what fails; ``notes`` are the caller's own.

    Raises:
        InputError: a baseline cannot be read, or is not filled in.

    """
    verified = verified_of(files)
    exceptions = left_out_notes(target.settings for target in files)
    parts = BaselineSplit(new=[], baselined=[], unused=[], exceeded=[])
    # One baseline is shared by all its files: its counts are of the whole run.
    for baseline in dict.fromkeys(target.settings.baseline for target in files):
        group = [target for target in files if target.settings.baseline == baseline]
        part = _split(group, baseline, release=release)
        exceptions += baseline_notes(part, baseline) if baseline is not None else []
        parts = replace(parts, new=parts.new + part.new, baselined=parts.baselined + part.baselined)
    refused = [finding for result in verified for finding in _refused(result, release=release, require=require)]
    read = [identity for target in files for identity in target.result.identities]
    present = {(finding.path, finding.code) for finding in parts.new if not finding.follows_from}
    return Verdict(
        files=[str(target.result.path) for target in files],
        findings=[_rooted(finding, present) for finding in parts.new],
        baselined=parts.baselined,
        notes=list(dict.fromkeys([*(note for result in verified for note in result.notes), *notes])),
        exceptions=exceptions,
        release=release,
        require=require,
        failing=_FAILING_RELEASE if release else FAILING,
        settings={str(target.result.path): target.settings for target in files},
        facts={str(result.path): result.facts for result in verified},
        inputs={str(result.path): result.inputs for result in verified},
        refused=[_rooted(finding, present) for finding in refused],
        unreadable={str(each.result.path): each.result.error for each in files if isinstance(each.result, Unverified)},
        identities={str(identity.path): identity for identity in read if identity.role == "judged"},
        compared=tuple(dict.fromkeys(identity for identity in read if identity.role != "judged")),
        date=verification_date(),
    )


def verified_of(files: Iterable[JudgedFile]) -> list[Verified]:
    """Return the results of the files that could be verified."""
    return [file.result for file in files if isinstance(file.result, Verified)]


def _rooted(finding: Finding, present: set[tuple[str, str]]) -> Finding:
    """Leave out the root causes that are not among the findings, since a baseline has them."""
    roots = tuple(code for code in finding.follows_from if (finding.path, code) in present)
    return finding if roots == finding.follows_from else replace(finding, follows_from=roots)


def _refused(result: Verified, *, release: bool, require: Required | None) -> list[Finding]:
    """Return the gate's refusals of a file, and the findings that follow from its damage."""
    findings = refusals(result.path, result.facts, release=release, require=require)
    mended = result.mended or result.facts
    lasting = {(f.code, f.message) for f in refusals(result.path, mended, release=release, require=require)}
    codes = tuple(dict.fromkeys(f.code for f in result.findings if not f.follows_from and f.severity in FAILING))
    return [f if (f.code, f.message) in lasting else replace(f, follows_from=codes) for f in findings]


def _split(group: Sequence[JudgedFile], baseline: Path | None, *, release: bool) -> BaselineSplit:
    """Separate known findings from new ones; a release knows none that are fatal, and none of most rules."""
    findings = [finding for result in verified_of(group) for finding in result.findings]
    if baseline is None:
        return BaselineSplit(new=findings, baselined=[], unused=[], exceeded=[])
    judged: dict[str, set[str]] = {}
    for result, settings in group:
        for rule in settings.rules:
            if isinstance(result, Verified) and not result.inputs.isdisjoint(rule.inputs):
                judged.setdefault(rule.code, set()).add(result.path.name)
    parts = split(findings, in_scope(load_baseline(baseline), judged))
    if not release:
        return parts
    kept = [(finding, entry) for finding, entry in parts.baselined if _acceptable(finding)]
    refused = [finding for finding, _ in parts.baselined if not _acceptable(finding)]
    return replace(parts, new=parts.new + refused, baselined=kept, refused=len(refused))


def _acceptable(finding: Finding) -> bool:
    """Return whether a release may go out with this finding."""
    return find_rule(finding.code).release_may_leave_out and finding.severity != "fatal"
