"""The report of ``prologue writes judge``: a table of all writes, findings, and facts that could not be seen."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final, NamedTuple

from prologue.live.pokes.judge import WRITE_RULES, JudgedWrites
from prologue.live.pokes.recording import CAPABILITIES, Capability
from prologue.live.pokes.write_groups import PriorRun, WriteGroup
from prologue.report.closing import counted_severities, counts
from prologue.report.findings import Format, finding_data, finding_lines
from prologue.report.lines import table_lines
from prologue.rules.base import FAILING, Input
from prologue.words import counted, printable

SCHEMA: Final = "prologue.live-judge/1"
_UNSEEN: Final[dict[Capability, str]] = {
    "old": "the words before: only the new ones are judged",
    "running": "which CPUs ran: all are assumed to run",
    "stopped": "stop_machine: writes under it count as live",
    "maintenance": "cache maintenance and barriers: PL506 is not judged",
    "literal": "which words are data: all are judged as instructions",
    "lines": "which lines a DC or an IC was for: PL506 judges their kinds and order only",
    "ran": "what CPUs executed: slots and programs count as unreachable by their writer's name alone, and live writes "
    "as writes to code in use",
    "first_runs": "which CPUs executed a word first after its write: whether these had synchronised is not known",
}


class TableRow(NamedTuple):
    """Writes of one kind: ``why`` they were not live (empty if live), and the ``verdict``: allowed, data, or codes.

    ``against`` are the codes of the rules that they violate. ``executed`` says whether a CPU had executed the words, if
    that decides: for live writes that are on no list.
    """

    writer: str
    transition: str
    why: str
    verdict: str
    against: tuple[str, ...]
    executed: str = ""


def table_of(judged: JudgedWrites) -> dict[TableRow, int]:
    """Count the words of each kind, most first."""
    rows: Counter[TableRow] = Counter()
    for group, codes in zip(judged.groups, judged.verdicts, strict=True):
        rows[_row(group, codes)] += len(group.rows)
    return dict(sorted(rows.items(), key=lambda item: (not item[0].against, -item[1], item[0])))


def _row(group: WriteGroup, codes: tuple[str, ...]) -> TableRow:
    calm = "not live" if group.not_live else "data" if group.literal else "same word" if group.same else "allowed"
    writer = group.writer.mechanism or f"unknown: {group.writer.function or 'not recorded'}"
    return TableRow(
        writer=writer,
        transition=group.transition,
        why=group.not_live,
        verdict=", ".join(codes) or calm,
        against=codes,
        executed=group.executed.value if group.unlisted else "",
    )


def unseen(judged: JudgedWrites) -> list[str]:
    """List facts that the recorder could not see, and its losses."""
    recording = judged.recording
    sees, ending = recording.header.sees, recording.trailer
    hidden = [sight for sight in CAPABILITIES if sight in _UNSEEN and sight not in sees]
    # Facts on which nothing here depends are left out.
    if "maintenance" in hidden or not any(group.live for group in judged.groups):
        hidden = [sight for sight in hidden if sight != "lines"]
    if not any(group.writer.why_unreachable or group.unlisted for group in judged.groups):
        hidden = [sight for sight in hidden if sight != "ran"]
    if not any(group.unlisted and group.executed is PriorRun.NEVER for group in judged.groups):
        hidden = [sight for sight in hidden if sight != "first_runs"]
    parts = [_UNSEEN[sight] for sight in hidden]
    if "pc" not in sees and "callers" not in sees:
        parts.append("who wrote: PL507 is not judged")
    parts += [f"lost: {'an unknown number' if n is None else f'{n:,}'} of {what}" for what, n in ending.lost]
    if not ending.complete:
        parts.append("the recorder was interrupted")
    if unreturned := sum(len(g.rows) for g in judged.groups if g.live and g.steps is None and "maintenance" in sees):
        parts.append(
            counted(
                unreturned,
                "live write whose writer had not returned: PL506 is not judged for it",
                plural="live writes whose writer had not returned: PL506 is not judged for these",
            )
        )
    return parts


def render_writes(judged: JudgedWrites, kind: Format, *, show_all: bool) -> str:
    """Return the report; no format ends with a newline."""
    if kind == "json":
        return json.dumps(_data(judged), indent=2)
    notes = [*_table(judged), *_note_lines(judged), summary(judged)]
    if kind == "text":
        return "\n".join([*finding_lines(judged.findings, show_all=show_all), *notes])
    files, findings = [judged.recording.path], list(judged.findings)
    left = {f"writers of {judged.recording.path}": line for line in ["; ".join(_not_decided(judged))] if line}
    if kind == "sarif":
        from prologue.report.sarif import findings_sarif

        return json.dumps(findings_sarif([*files, *left], findings, notes, (), left), indent=2)
    from prologue.report.junit import CheckedFiles, findings_junit

    recorded: frozenset[Input] = frozenset({"W"})
    checked = CheckedFiles(
        files=[*files, *left], findings=findings, notes=notes, failing=FAILING, rules=WRITE_RULES,
        inputs=dict.fromkeys(files, recorded), unreadable=left,
    )  # fmt: skip
    return findings_junit(checked)


def _note_lines(judged: JudgedWrites) -> list[str]:
    notes = [f"not decided: {printable(text)}" for text in _not_decided(judged)]
    notes += [f"not seen: {printable(text)}" for text in unseen(judged)]
    return notes + [f"note: {printable(text)}" for text in judged.recording.trailer.notes]


def _not_decided(judged: JudgedWrites) -> list[str]:
    """Name writers that may be the kernel's own, in a release that was never compared, and other open questions."""
    lines = []
    for why in dict.fromkeys(question.reason for question in judged.questions):
        same = [question for question in judged.questions if question.reason == why]
        names = dict.fromkeys(question.writer for question in same)
        lines.append(f"{counted(sum(q.words for q in same), 'word')} written by {', '.join(names)}: {why}")
    return lines


def _table(judged: JudgedWrites) -> list[str]:
    rows = [
        (printable(row.writer), row.transition, _live_text(row), f"{count:,}", row.verdict)
        for row, count in table_of(judged).items()
    ]
    return table_lines(rows, ("writer", "transition", "live", "words", "verdict"), numbers=(3,))


def _live_text(row: TableRow) -> str:
    if row.why:
        return f"no: {row.why}"
    executed = {"": "yes", PriorRun.NOT_KNOWN.value: "yes: not known whether it was executed"}
    return executed.get(row.executed, f"yes: {row.executed}")


def summary(judged: JudgedWrites) -> str:
    """Return the last line."""
    recording = judged.recording
    live = sum(len(group.rows) for group in judged.groups if group.live)
    parts = counted_severities(judged.findings)
    if judged.undecided:
        parts += [*([] if parts else ["no finding"]), f"{counted(len(judged.undecided), 'word')} not decided"]
    outcome = ", ".join(parts)
    origin = ", ".join(part for part in (recording.header.source, recording.header.release) if part)
    clean = "no finding" if not unseen(judged) else "no finding in what was seen"
    written = f"{counted(len(recording.rows), 'word')} written, {live:,} live"
    return printable(f"{recording.path}: {outcome or clean} ({written}; {origin})")


def _data(judged: JudgedWrites) -> dict[str, Any]:
    """Return the report as documented in docs/json.md."""
    recording = judged.recording
    origin, ending = recording.header, recording.trailer
    return {
        "schema": SCHEMA,
        "passed": not (judged.failing or judged.undecided),
        "summary": summary(judged),
        "file": recording.path,
        "source": origin.source,
        "release": origin.release or None,
        "build_id": origin.build_id or None,
        "clock": origin.clock,
        "slide": None if ending.slide is None else hex(ending.slide),
        "words": len(recording.rows),
        "live": sum(len(group.rows) for group in judged.groups if group.live),
        "table": [
            {"writer": r.writer, "transition": r.transition, "live": not r.why, "why": r.why or None, "words": count,
             "verdict": r.verdict, "executed": r.executed or None}
            for r, count in table_of(judged).items()
        ],
        "not_seen": unseen(judged),
        "notes": list(ending.notes),
        "counts": counts(judged.findings),
        "findings": [finding_data(finding) for finding in judged.findings],
        "unknown": [finding_data(finding) for finding in judged.undecided],
    }  # fmt: skip
