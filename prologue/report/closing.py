"""The last line of a report: the outcome, and the scope of the verification."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from prologue.gate.judge import Verdict
from prologue.gate.verify import Facts, Signed
from prologue.rules.base import SEVERITIES, Finding, Severity
from prologue.rules.registry import RULES
from prologue.words import counted, printable


def closing_line(verdict: Verdict) -> str:
    """Return the last line, as in ``1 file: clean (43,880 sites, processed, native)``."""
    findings = verdict.findings + verdict.refused
    roots = [finding for finding in findings if not finding.follows_from]
    outcome = counted_severities(roots)
    if len(findings) > len(roots):
        following = len(findings) - len(roots)
        outcome.append(
            f"{following} more that follow{'s' if following == 1 else ''} from {'it' if len(roots) == 1 else 'them'}"
        )
    idle = sum(1 for path in verdict.facts if not verdict.rules_run(path))
    if idle:
        outcome.append(f"{idle} without an applicable rule")
    if verdict.unreadable:
        outcome.append(f"{len(verdict.unreadable)} could not be verified")
    if verdict.baselined:
        known = counted(len(verdict.baselined), "known finding")
        outcome = [*outcome, known] if outcome else [f"clean except for {known}"]
    looked = [_looked_at(list(verdict.facts.values())), _kernels(verdict), _signatures(verdict)]
    looked += [_compared(verdict), _left_out(verdict)]
    scope = "; ".join(part for part in looked if part)
    files = counted(len(verdict.files), "file")
    return printable(f"{files}: {', '.join(outcome) or 'clean'}{f' ({scope})' if scope else ''}")


def severities(findings: Sequence[Finding]) -> list[Severity]:
    """List the severities of findings, the worst first: those of one rule need not be alike."""
    return [severity for severity in SEVERITIES if any(finding.severity == severity for finding in findings)]


def counts(findings: Sequence[Finding]) -> dict[str, int]:
    """Count the findings of each severity."""
    by_severity = Counter(finding.severity for finding in findings)
    return {severity: by_severity[severity] for severity in SEVERITIES}


def counted_severities(findings: Sequence[Finding]) -> list[str]:
    """Write the counts that are not 0, as in ``2 error``."""
    return [f"{count:,} {severity}" for severity, count in counts(findings).items() if count]


def _looked_at(files: Sequence[Facts]) -> str:
    """Name sites, state and contract; sums, if several files agree in kind, contract and state."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for facts in files:
        state = () if facts.state == "no sites" else (facts.state,)
        groups.setdefault((facts.kind, *state, facts.contract or "module"), []).append(facts.sites)
    if len(files) == 1:
        return "; ".join(_group(words, sum(sites)) for (_, *words), sites in groups.items())
    return "; ".join(
        f"{counted(len(sites), kind, plural='vmlinux' if kind == 'vmlinux' else '')}: "
        + _group([word for word in words if word != "module"], sum(sites))
        for (kind, *words), sites in groups.items()
    )


def _group(words: Sequence[str], sites: int) -> str:
    return ", ".join([counted(sites, "site") if sites else "no sites", *words])


def _kernels(verdict: Verdict) -> str:
    """Name the kernels that modules were checked against."""
    named = dict.fromkeys(facts.vmlinux for facts in verdict.facts.values() if facts.kind == "module")
    against = [str(path) for path in named if path is not None]
    return f"modules of {', '.join(against)}" if against else "no kernel given" if named else ""


def _signatures(verdict: Verdict) -> str:
    """Count signed modules by the kind of their signatures; a bad signature is a finding."""
    signatures = Counter(facts.signature for facts in verdict.facts.values())
    words: dict[Signed, str] = {
        "good": "signed by a key of the kernel",
        "unknown-key": "signed by another key, which cannot be checked",
        "not checked": "signed, which was not checked",
    }
    unsigned = sum(1 for facts in verdict.facts.values() if facts.unsigned_for is not None)
    parts = [f"{signatures[signed]:,} {text}" for signed, text in words.items() if signatures[signed]]
    return ", ".join([*parts, *([f"{unsigned:,} not signed"] if unsigned else [])])


def _compared(verdict: Verdict) -> str:
    """Name the files that a file was compared with; differences are in the notes and findings."""
    kinds = {kind for inputs in verdict.inputs.values() for kind in inputs}
    words = {"P": "the file from before", "I": "the boot file"}
    compared = [word for kind, word in words.items() if kind in kinds]
    return f"compared with {' and '.join(compared)}" if compared else ""


def _left_out(verdict: Verdict) -> str:
    """Count the rules that ran, if some were left out, be it for a single file."""
    if not any(settings.left_out for settings in verdict.settings.values()):
        return ""
    inputs = frozenset().union(*verdict.inputs.values())
    apply = [rule for rule in RULES if not inputs.isdisjoint(rule.inputs)]
    left_out = {left.rule.code for settings in verdict.settings.values() for left in settings.left_out}
    ran = sum(1 for rule in apply if rule.code not in left_out)
    return f"{ran} of {counted(len(apply), 'rule')} that apply ran" if apply else ""
