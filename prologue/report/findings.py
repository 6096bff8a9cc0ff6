"""A verdict of the gate in the chosen format: text and JSON here, others by their modules."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

import prologue
from prologue.gate.identity import FileIdentity
from prologue.gate.judge import Verdict
from prologue.report.closing import closing_line, counts, severities
from prologue.report.lines import FEW, named, one_line_each, split_path
from prologue.rules.base import Finding
from prologue.rules.registry import RULES
from prologue.words import printable

Format = Literal["text", "json", "sarif", "junit"]
SCHEMA: Final = "prologue.verify/1"
_SHOWN: Final = 5  # findings of one rule in the text; JSON has them all


def render(verdict: Verdict, kind: Format, *, show_all: bool) -> str:
    """Return the report; no format ends with a newline."""
    if kind == "text":
        return findings_text(verdict, show_all=show_all)
    if kind == "json":
        return json.dumps(findings_data(verdict), indent=2)
    return _sarif(verdict) if kind == "sarif" else _junit(verdict)


def _sarif(verdict: Verdict) -> str:
    from prologue.report.sarif import findings_sarif

    log = findings_sarif(
        verdict.files,
        verdict.findings + verdict.refused,
        [*verdict.notes, *verdict.exceptions],
        verdict.baselined,
        verdict.unreadable,
        left_out={left.rule.code for settings in verdict.settings.values() for left in settings.left_out},
        identities=[*verdict.identities.values(), *verdict.compared],
        date=verdict.date,
    )
    return json.dumps(log, indent=2)


def _junit(verdict: Verdict) -> str:
    from prologue.report.junit import CheckedFiles, findings_junit

    checked = CheckedFiles(
        files=verdict.files,
        findings=verdict.findings + verdict.refused,
        notes=[*verdict.notes, *verdict.exceptions],
        failing=verdict.failing,
        rules=(*RULES, *verdict.gate_rules),
        inputs=verdict.inputs,
        left_out={
            path: {left.rule.code: left.why for left in settings.left_out}
            for path, settings in verdict.settings.items()
        },
        unreadable=verdict.unreadable,
        identities=verdict.identities,
        compared=verdict.compared,
        date=verdict.date,
    )
    return findings_junit(checked)


def findings_data(verdict: Verdict) -> dict[str, Any]:
    """Return all findings, and the files they were made in, as documented in docs/json.md."""
    findings = verdict.findings + verdict.refused
    return {
        "schema": SCHEMA,
        "passed": verdict.passed,
        "summary": closing_line(verdict),
        "release": verdict.release,
        "required_state": verdict.require,
        "tool": {"name": "prologue", "version": prologue.__version__},
        "date": verdict.date,
        "files": verdict.files,
        "errors": list(verdict.unreadable.values()),
        "counts": counts(findings),
        "following": sum(1 for finding in findings if finding.follows_from),
        "notes": verdict.notes + verdict.exceptions,
        "checked": [_checked(verdict, path) for path in verdict.files],
        "compared": [{"file": str(each.path), "role": each.role, **_identity(each)} for each in verdict.compared],
        "findings": [finding_data(f) for f in findings],
        "baselined": [
            finding_data(f) | {"reason": known.reason, "owner": known.owner} for f, known in verdict.baselined
        ],
    }


def _checked(verdict: Verdict, path: str) -> dict[str, Any]:
    """Return the facts of a file, and the rules that did not run on it."""
    facts, settings = verdict.facts.get(path), verdict.settings[path]
    data: dict[str, Any] = {"file": path, "error": verdict.unreadable.get(path)}
    data |= _identity(verdict.identities.get(path))
    if facts is not None:
        data |= {"kind": facts.kind, "contract": facts.contract, "state": facts.state, "sites": facts.sites}
        data |= {"vmlinux": None if facts.vmlinux is None else str(facts.vmlinux)}
        data |= {"rules_run": verdict.rules_run(path)}
        data |= {"signature": facts.signature if facts.kind == "module" else None}
    return data | {
        "settings": None if settings.path is None else str(settings.path),
        "not_run": [
            {"code": left.rule.code, "slug": left.rule.slug, "how": left.how, "source": left.source}
            for left in settings.left_out
        ],
    }


def _identity(identity: FileIdentity | None) -> dict[str, str | None]:
    """Return what identifies a file; null where that is not known."""
    known = identity.named() if identity is not None else {}
    return {"release": known.get("release"), "build_id": known.get("build-id"), "sha256": known.get("sha256")}


def finding_data(f: Finding) -> dict[str, Any]:
    """Return a finding as documented in docs/json.md."""
    return {
        "code": f.code,
        "slug": f.slug,
        "severity": f.severity,
        "file": f.path,
        "vaddr": None if f.where.vaddr is None else f"{f.where.vaddr:#x}",
        "symbol": f.where.symbol,
        "symbol_offset": f.where.symbol_offset,
        "section": f.where.section,
        "section_offset": f.where.section_offset,
        "message": f.message,
        "found": [f"{word:#x}" for word in f.found],
        "expected": [f"{word:#x}" for word in f.expected],
        "fix": f.fix,
        "follows_from": list(f.follows_from),
    }


def findings_text(verdict: Verdict, *, show_all: bool) -> str:
    """Return findings by file and rule, the first few of each, then unreadable files, notes, and a summary."""
    lines = finding_lines(verdict.findings + verdict.refused, show_all=show_all)
    files = frozenset(verdict.files)
    errors = [split_path(error, files) for error in verdict.unreadable.values()]
    lines += [f"could not be verified: {line}" for line in one_line_each(errors)]
    notes = [split_path(note, files) for note in verdict.notes + verdict.exceptions]
    lines += [f"note: {line}" for line in one_line_each(notes)]
    lines.append(closing_line(verdict))
    return "\n".join(lines)


def cause_lines(verdict: Verdict) -> list[str]:
    """List the first findings of each root cause: for the log of a run whose report is in a file."""
    return finding_lines(verdict.findings + verdict.refused, show_all=False)


def finding_lines(findings: Iterable[Finding], *, show_all: bool) -> list[str]:
    """List findings by file and rule, the first few of each; groups that are equal in many files once.

    Findings of severity info from which no others follow are counted in one line, unless all are shown.
    """
    lines: list[str] = []
    counted_only = Counter[str]()
    groups, following = by_root(findings)
    alike: dict[tuple[str, ...], list[Group]] = {}
    for key, group in groups.items():
        if not show_all and all(f.severity == "info" for f in (*group, *following.get(key, ()))):
            counted_only[f"{key[1]} {group[0].slug}"] += len(group)
            continue
        shown = group if show_all else group[:_SHOWN]
        texts = [f"{key[1]} {group[0].slug} ({', '.join(severities(group))}): {len(group):,}"]
        texts += [printable(f"  {finding.where}: {finding.message}{_disassembled(finding)}") for finding in shown]
        if len(group) > len(shown):
            texts.append(f"  ... and {len(group) - len(shown):,} more (--all)")
        texts += [printable(f"  also: {text}") for text in also(key, following)]
        texts += [f"  to do: {fix}" for fix in dict.fromkeys(finding.fix for finding in shown)]
        alike.setdefault(tuple(texts), []).append(key)
    for (head, *rest), keys in alike.items():
        paths = [path for path, _ in keys]
        for files in [paths] if len(paths) > FEW else [[path] for path in paths]:
            lines += [f"{named(files)}: {head}", *rest]
    if counted_only:
        rules = ", ".join(f"{rule} {count:,}" for rule, count in counted_only.items())
        lines.append(f"info, which fails nothing: {rules} (--all shows them)")
    return lines


Group = tuple[str, str]  # path and code


def by_root(findings: Iterable[Finding]) -> tuple[dict[Group, list[Finding]], dict[Group, list[Finding]]]:
    """Separate root causes from findings that follow from them; both by file and rule, the latter of the first root.

    A finding that follows from others that are not there (a baseline has them) counts as a root cause.
    """
    findings = list(findings)
    present = {(f.path, f.code) for f in findings if not f.follows_from}
    roots: dict[Group, list[Finding]] = {}
    following: dict[Group, list[Finding]] = {}
    for f in findings:
        root = next(((f.path, code) for code in f.follows_from if (f.path, code) in present), None)
        if root is None:
            roots.setdefault((f.path, f.code), []).append(f)
        else:
            following.setdefault(root, []).append(f)
    return roots, following


def also(group: Group, following: dict[Group, list[Finding]]) -> Iterator[str]:
    """Yield a line with the findings that follow from a group; nothing if there are none."""
    counts = Counter((f.code, f.slug) for f in following.get(group, ()))
    if counts:
        names = ", ".join(
            f"{code} {slug}" + (f" x {count:,}" if count > 1 else "") for (code, slug), count in counts.items()
        )
        yield f"{names} {'follow' if counts.total() > 1 else 'follows'} from it"


def _disassembled(finding: Finding) -> str:
    """Return the found instructions in assembly; nothing for addresses and bytes."""
    if not finding.found or not finding.finds_insns:
        return ""
    from prologue.insn.disasm import insn_text

    start = finding.where.section_offset if finding.where.vaddr is None else finding.where.vaddr
    texts = (insn_text(word, start + 4 * k) for k, word in enumerate(finding.found))
    return f" [{'; '.join(texts)}]"
