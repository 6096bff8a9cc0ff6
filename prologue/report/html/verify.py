"""The verdict of the gate as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from prologue.gate.identity import FileIdentity
from prologue.gate.judge import Verdict
from prologue.gate.verify import Facts
from prologue.report.closing import closing_line
from prologue.report.html.causes import causes_part
from prologue.report.html.page import BulletList, Page, PagePart, Table
from prologue.report.lines import one_line_each, split_path
from prologue.rules.base import INPUTS, Input
from prologue.rules.registry import RULES
from prologue.words import counted

_ELSEWHERE: dict[Input, str] = {
    "C": "prologue live audit",
    "W": "prologue writes judge",
}  # what runs rules of such input
_IDENTITY = ("release", "build-id", "sha256")
_MANY = 12  # files from which on their table is folded


def verify_page(verdict: Verdict, command: Sequence[str]) -> Page:
    """Make the page; ``command`` is what makes it again."""
    parts: list[PagePart] = [causes_part(verdict.findings + verdict.refused)]
    if verdict.facts:
        parts.append(_checked(verdict))
    parts.append(BulletList(title="What was not checked", lines=list(_not_checked(verdict))))
    notes = _lines(verdict, verdict.notes)
    if notes:
        parts.append(BulletList(title="Notes", lines=notes))
    if verdict.baselined:
        parts.append(_known(verdict))
    parts.append(_files(verdict))
    path, *others = verdict.files
    identity = verdict.identities.get(path)
    return Page(
        title="prologue verify",
        subject=counted(len(verdict.files), "file") if others else path,
        facts=[] if others else [("file", path), *(identity.named().items() if identity is not None else ())],
        date=verdict.date,
        outcome="passed" if verdict.passed else "failed",
        summary=closing_line(verdict),
        parts=parts,
        command=command,
    )


def _lines(verdict: Verdict, texts: Sequence[str]) -> list[str]:
    files = frozenset(verdict.files)
    return one_line_each(split_path(text, files) for text in texts)


def _checked(verdict: Verdict) -> Table:
    """Make rows with the sums of files of each kind."""
    sites: Counter[tuple[str, str, str, int]] = Counter()
    files: Counter[tuple[str, str, str, int]] = Counter()
    for path, facts in verdict.facts.items():
        key = (facts.kind, facts.contract or "", facts.state, verdict.rules_run(path))
        files[key] += 1
        sites[key] += facts.sites
    rows = [(*key[:3], f"{files[key]:,}", f"{sites[key]:,}", str(key[3])) for key in files]
    asked = ["a release"] if verdict.release else []
    asked += [f"the state {verdict.require}"] if verdict.require else []
    return Table(
        title="What was checked",
        head=("kind", "contract", "state", "files", "sites", "rules that ran"),
        rows=rows,
        numbers=(3, 4, 5),
        note=f"Required: {' and '.join(asked)}." if asked else "",
    )


def _not_checked(verdict: Verdict) -> Iterator[str]:
    """List files that could not be verified, rules that were left out, and rules whose input was not given."""
    files = frozenset(verdict.files)
    errors = [split_path(error, files) for error in verdict.unreadable.values()]
    yield from (f"could not be verified: {line}" for line in one_line_each(errors))
    left_out: dict[tuple[str, str], int] = Counter(
        (f"{left.rule.code} {left.rule.slug}", left.why)
        for settings in verdict.settings.values()
        for left in settings.left_out
    )
    for (name, why), count in left_out.items():
        yield f"{name}: {why}" + (f", for {counted(count, 'file')}" if count < len(verdict.files) else "")
    yield from _lines(verdict, verdict.exceptions)
    given: frozenset[Input] = frozenset().union(*verdict.inputs.values())
    lacking: dict[tuple[Input, ...], list[str]] = {}
    for rule in RULES:
        if given.isdisjoint(rule.inputs):
            lacking.setdefault(rule.inputs, []).append(rule.code)
    for inputs, codes in lacking.items():
        how = ", ".join(_ELSEWHERE[kind] for kind in inputs if kind in _ELSEWHERE) or "not given"
        yield f"{', '.join(codes)}: input: {' or '.join(INPUTS[kind] for kind in inputs)} ({how})"


def _files(verdict: Verdict) -> Table:
    counts = Counter(finding.path for finding in verdict.findings + verdict.refused)
    rows = [_file_row(verdict, path, verdict.facts.get(path), counts[path]) for path in verdict.files]
    return Table(
        title="Files",
        head=("file", "kind", "state", "sites", "rules", "findings", "checked against", "signature", *_IDENTITY),
        rows=rows + [_compared_row(each) for each in verdict.compared],
        numbers=(3, 4, 5),
        folded=len(rows) > _MANY,
    )


def _file_row(verdict: Verdict, path: str, facts: Facts | None, findings: int) -> tuple[str, ...]:
    identity = verdict.identities.get(path)
    known = identity.named() if identity is not None else {}
    identifying = [known.get(name, "") for name in _IDENTITY]
    if facts is None:
        return (path, "", "not verified", "", "", "", "", "", *identifying)
    state = f"{facts.state}, {facts.contract}" if facts.contract else facts.state
    signature = facts.signature if facts.kind == "module" else ""
    kernel = "" if facts.vmlinux is None else str(facts.vmlinux)
    return (
        path, facts.kind, state, f"{facts.sites:,}", str(verdict.rules_run(path)), f"{findings:,}", kernel, signature,
        *identifying,
    )  # fmt: skip


def _compared_row(identity: FileIdentity) -> tuple[str, ...]:
    words = {"vmlinux": "kernel of modules", "before": "from before", "image": "boot file"}
    known = identity.named()
    return (str(identity.path), words[identity.role], *[""] * 6, *(known.get(name, "") for name in _IDENTITY))


def _known(verdict: Verdict) -> Table:
    rows = [(f.code, f.path, str(f.where), known.reason, known.owner) for f, known in verdict.baselined]
    return Table(
        title="Known findings", head=("code", "file", "where", "reason", "owner"), rows=rows[:1000],
        folded=len(rows) > _MANY, note=f"{len(rows) - 1000:,} more." if len(rows) > 1000 else "",
    )  # fmt: skip
