"""Findings as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from prologue.gate.verdict import Verdict
from prologue.report.alike import FEW, named, one_line_each, split_path
from prologue.report.closing import closing_line, counts
from prologue.report.printable import printable
from prologue.rules.base import Finding

SCHEMA: Final = "prologue.verify/1"
_SHOWN: Final = 5  # findings of one rule in the text; JSON has them all


def findings_data(verdict: Verdict) -> dict[str, Any]:
    """All findings and what they were found in, as documented in docs/json.md."""
    findings = verdict.findings + verdict.refused
    return {
        "schema": SCHEMA,
        "passed": verdict.passed,
        "summary": closing_line(verdict),
        "release": verdict.release,
        "required_state": verdict.require,
        "files": verdict.files,
        "errors": list(verdict.unreadable.values()),
        "counts": counts(findings),
        "following": sum(1 for finding in findings if finding.follows_from),
        "notes": verdict.notes + verdict.exceptions,
        "checked": [_checked(verdict, path) for path in verdict.files],
        "findings": [finding_data(f) for f in findings],
        "baselined": [
            finding_data(f) | {"reason": known.reason, "owner": known.owner} for f, known in verdict.baselined
        ],
    }


def _checked(verdict: Verdict, path: str) -> dict[str, Any]:
    """What is known of one file, and what did not run on it."""
    facts, settings = verdict.facts.get(path), verdict.settings[path]
    what: dict[str, Any] = {"file": path, "error": verdict.unreadable.get(path)}
    if facts is not None:
        what |= {"kind": facts.kind, "contract": facts.contract, "state": facts.state, "sites": facts.sites}
        what |= {"vmlinux": None if facts.vmlinux is None else str(facts.vmlinux)}
        what |= {"rules_run": verdict.rules_run(path)}
        what |= {"signature": facts.signature if facts.kind == "module" else None}
    return what | {
        "settings": None if settings.path is None else str(settings.path),
        "not_run": [
            {"code": left.rule.code, "slug": left.rule.slug, "how": left.how, "source": left.source}
            for left in settings.left_out
        ],
    }


def finding_data(f: Finding) -> dict[str, Any]:
    """One finding, as documented in docs/json.md."""
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
    """Findings grouped by file and rule, the first few of each, then what could not be read, notes, and a summary."""
    lines = finding_lines(verdict.findings + verdict.refused, show_all=show_all)
    files = frozenset(verdict.files)
    errors = [split_path(error, files) for error in verdict.unreadable.values()]
    lines += [f"could not be verified: {line}" for line in one_line_each(errors)]
    notes = [split_path(note, files) for note in verdict.notes + verdict.exceptions]
    lines += [f"note: {line}" for line in one_line_each(notes)]
    lines.append(closing_line(verdict))
    return "\n".join(lines)


def finding_lines(findings: Iterable[Finding], *, show_all: bool) -> list[str]:
    """Findings grouped by file and rule, the first few of each; groups that are equal in many files once.

    What is of severity info, and has nothing else following from it, is counted in one line unless all is shown.
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
        what = [f"{key[1]} {group[0].slug} ({group[0].severity}): {len(group):,}"]
        what += [printable(f"  {finding.where}: {finding.message}{_disassembled(finding)}") for finding in shown]
        if len(group) > len(shown):
            what.append(f"  ... and {len(group) - len(shown):,} more (--all)")
        what += [printable(f"  also: {text}") for text in also(key, following)]
        what += [f"  to do: {fix}" for fix in dict.fromkeys(finding.fix for finding in shown)]
        alike.setdefault(tuple(what), []).append(key)
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
    """Root causes by file and rule, and what follows from them, by the file and rule of the first of its roots.

    What follows from findings that are not there (a baseline has them) is shown like a root cause.
    """
    every = list(findings)
    present = {(f.path, f.code) for f in every if not f.follows_from}
    roots: dict[Group, list[Finding]] = {}
    following: dict[Group, list[Finding]] = {}
    for f in every:
        root = next(((f.path, code) for code in f.follows_from if (f.path, code) in present), None)
        if root is None:
            roots.setdefault((f.path, f.code), []).append(f)
        else:
            following.setdefault(root, []).append(f)
    return roots, following


def also(group: Group, following: dict[Group, list[Finding]]) -> Iterator[str]:
    """Yield what follows from a group of findings, in one line; nothing if nothing does."""
    counts = Counter((f.code, f.slug) for f in following.get(group, ()))
    if counts:
        names = ", ".join(
            f"{code} {slug}" + (f" x {count:,}" if count > 1 else "") for (code, slug), count in counts.items()
        )
        yield f"{names} {'follow' if counts.total() > 1 else 'follows'} from it"


def _disassembled(finding: Finding) -> str:
    """The found instructions in assembly; nothing for addresses and bytes."""
    if not finding.found or not finding.finds_insns:
        return ""
    from prologue.insn.disasm import insn_text

    start = finding.where.section_offset if finding.where.vaddr is None else finding.where.vaddr
    texts = (insn_text(word, start + 4 * k) for k, word in enumerate(finding.found))
    return f" [{'; '.join(texts)}]"
