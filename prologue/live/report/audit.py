"""An audit of running text as text, JSON, SARIF or JUnit."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from prologue.errors import Location
from prologue.live.audit.audited import LiveWord, MechanismCount
from prologue.live.audit.outcome import KERNEL, Audit, AuditedFile, MemoryFinding, name_in
from prologue.live.audit.run import LIVE_RULES
from prologue.live.report.undecided import (
    agreement_lines,
    counted_undecided,
    unknown_lines,
    why_undecided,
)  # fmt: skip
from prologue.report.closing import counted_severities, counts
from prologue.report.findings import Format, finding_data, finding_lines
from prologue.report.lines import table_lines
from prologue.rules.base import FAILING, Input
from prologue.words import counted, printable

SCHEMA: Final = "prologue.live-audit/1"


def render_audit(
    audit: Audit, kind: Format, *, show_all: bool, lacking_allowed: bool = False, brief: bool = False
) -> str:
    """Return the report; no format ends with a newline. If ``brief``, text has only what is wrong or not decided.

    If words were not decided, except those that ``lacking_allowed`` lets pass, no format passes: their source is one
    more file, which could not be verified, as is a module that could not be audited.
    """
    if kind == "text":
        return _text(audit, show_all=show_all, brief=brief)
    if kind == "json":
        return json.dumps(_data(audit, lacking_allowed=lacking_allowed), indent=2)
    audits = audit.looks
    notes = [*unknown_lines(audit, show_all=show_all), *_table(audit), *agreement_lines(audit), *file_notes(audit)]
    notes += [*_transitions(audit), *not_looked_at(audit), *_struct_offsets(audit), closing(audit)]
    left = [look for look in audits if look.is_open(lacking_allowed=lacking_allowed)]
    unread = {f"words of {look.source}": "; ".join(why_undecided(look)) for look in left}
    if kind == "sarif":
        return json.dumps(_sarif(audit, notes, unread), indent=2)
    from prologue.report.junit import CheckedFiles, findings_junit

    files = [name_in(look.source, file.path) for look in audits for file in look.files]
    for look in audits:
        for error in look.errors:
            name = name_in(look.source, error.path or "modules")
            unread[name] = f"{unread[name]}; {error}" if name in unread else str(error)
    live: frozenset[Input] = frozenset({"C"})
    checked = CheckedFiles(
        files=[*files, *unread], findings=[finding.named for finding in audit.every_finding], notes=notes,
        failing=FAILING, rules=LIVE_RULES, inputs=dict.fromkeys(files, live),
        left_out=dict.fromkeys(files, audit.left_out), unreadable=unread,
    )  # fmt: skip
    return findings_junit(checked)


def _sarif(audit: Audit, notes: list[str], unread: dict[str, str]) -> dict[str, Any]:
    from prologue.report.sarif import findings_sarif

    audits, findings = audit.looks, audit.every_finding
    files = list(dict.fromkeys(str(file.path) for item in audits for file in item.files))
    return findings_sarif(
        [*files, *unread], [item.finding for item in findings], notes, (), unread | _unaudited(audit, files),
        left_out=audit.left_out, memories=[item.memory for item in findings], audited=[item.source for item in audits],
    )  # fmt: skip


def _unaudited(audit: Audit, files: list[str]) -> dict[str, str]:
    """Return errors by the path of their file; ``files`` were audited, if only in one of two memories."""
    modules: dict[str, str] = {}
    for error in audit.all_errors:
        path = str(error.path or audit.source)
        key = f"{path}, in one memory" if path in files else path
        modules[key] = f"{modules[key]}; {error}" if key in modules else str(error)
    return modules


def closing(audit: Audit) -> str:
    """Return the last line, as in ``kernel: clean (6.12.0, 3,661,312 words of text)``: clean if all was decided."""
    parts = counted_severities([item.finding for item in audit.every_finding])
    changed = sum(transition.words for transition in audit.transitions if not transition.allowed)
    parts += [counted(changed, "change that is not allowed", plural="changes that are not allowed")] if changed else []
    failures = len(audit.all_errors)
    left = [f"{counted(failures, 'module')} could not be audited"] if failures else []
    left += counted_undecided(audit)
    parts += [*([] if parts else ["nothing wrong found"]), *left] if left else []
    words = sum(item.audited.text for item in audit.files)
    modules = sum(1 for item in audit.files if item.name != KERNEL)
    looked = [audit.release or "release unknown", f"{counted(words, 'word')} of text"]
    looked += [counted(modules, "module")] if modules else []
    looked += [f"without {', '.join(sorted(audit.left_out))}"] if audit.left_out else []
    name = audit.source if audit.before is None else f"{audit.before.source}, {audit.source}"
    return printable(f"{name}: {', '.join(parts) or 'clean'} ({', '.join(looked)})")


def _text(audit: Audit, *, show_all: bool, brief: bool) -> str:
    findings = [finding.named for finding in audit.every_finding]
    lines = finding_lines(findings, show_all=show_all)
    lines += unknown_lines(audit, show_all=show_all)
    lines += [] if brief else [*_table(audit), *map(printable, [*agreement_lines(audit), *file_notes(audit)])]
    lines += _transitions(audit)
    if not brief:
        lines += [f"not looked at: {printable(note)}" for note in not_looked_at(audit)]
        lines += _struct_offsets(audit)
    lines += why_undecided(audit)
    return "\n".join([*lines, closing(audit)])


MECHANISM_HEAD: Final = ("mechanism", "words that could change", "changed", "wrong", "not decided")


def mechanism_rows(audit: Audit) -> list[tuple[str, ...]]:
    """Return the counts of all files together, a row for each mechanism, as ``MECHANISM_HEAD``."""
    rows: dict[str, MechanismCount] = {}
    for audited_file in audit.files:
        for row in audited_file.audited.mechanisms:
            old = rows.get(row.mechanism)
            rows[row.mechanism] = row if old is None else old.plus(row)
    return [
        (row.mechanism, *(f"{count:,}" for count in (row.words, row.changed, row.wrong, row.unsure)))
        for row in rows.values()
        if row.words
    ]


def _table(audit: Audit) -> list[str]:
    return table_lines(mechanism_rows(audit), MECHANISM_HEAD, numbers=(1, 2, 3, 4))


def _transitions(audit: Audit) -> list[str]:
    """List the changes since the earlier memory."""
    if audit.before is None:
        return []
    if not audit.transitions:
        return [f"nothing changed since {printable(audit.before.source)}"]
    rows = [(row.mechanism, f"{row.old} -> {row.new}", f"{row.words:,}", row.verdict) for row in audit.transitions]
    return table_lines(rows, (f"since {printable(audit.before.source)}", "", "words", ""), numbers=(2,))


def file_notes(audit: Audit) -> list[str]:
    """Return the notes on files, those of the earlier memory first."""
    earlier = [] if audit.before is None else [f"{audit.before.source}: {note}" for note in file_notes(audit.before)]
    return [*earlier, *(note for audited_file in audit.files for note in audited_file.audited.notes)]


def _struct_offsets(audit: Audit) -> list[str]:
    return [f"struct offsets: {audit.struct_offsets}"] if audit.struct_offsets else []


def not_looked_at(audit: Audit) -> list[str]:
    """Return a line for text that memory lacks, for each note of the audit, and for each rule that did not run."""
    earlier = [] if audit.before is None else [f"{audit.before.source}: {line}" for line in _lacking(audit.before)]
    unruled = [f"what {code} finds: the rule was {why}" for code, why in sorted(audit.left_out.items())]
    return [*earlier, *_lacking(audit), *unruled]


def _lacking(audit: Audit) -> list[str]:
    """Return a line for text that memory lacks, and for each note of one look."""
    modules: dict[str, list[int]] = {}
    lacking = []
    for audited_file in audit.files:
        for section, words in audited_file.audited.unlooked:
            if audited_file.name == KERNEL:
                lacking.append(f"{section}: {counted(words, 'word')} that memory does not have")
            else:
                modules.setdefault(section, []).append(words)
    for section, counts_ in modules.items():
        where = f"{section} of {counted(len(counts_), 'module')}"
        lacking.append(f"{where}: {counted(sum(counts_), 'word')} that memory does not have")
    return [*lacking, *audit.notes]


def _data(audit: Audit, *, lacking_allowed: bool) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "passed": audit.passes(lacking_allowed=lacking_allowed),
        "summary": closing(audit),
        "source": audit.source,
        "release": audit.release or None,
        "slide": None if audit.slide is None else hex(audit.slide),
        "counts": counts([item.finding for item in audit.every_finding]),
        "struct_offsets": audit.struct_offsets or None,
        "undecided": {
            "restless": audit.undecided.unstable,
            "lacking": audit.undecided.lacking,
            "unknown": audit.undecided.unknown,
            "hooks": sum(look.open_hooks for look in audit.looks),
            "lists": sum(look.open_lists for look in audit.looks),
        },
        "before": None if audit.before is None else audit.before.source,
        "transitions": [asdict(row) | {"allowed": row.allowed} for row in audit.transitions],
        "files": [_file(item) | {"memory": audit.source} for item in audit.files],
        "not_looked_at": not_looked_at(audit),
        "errors": [str(error) for error in audit.all_errors],
        "findings": [_finding(audit, item) for item in audit.every_finding],
        "unknown": [
            _unknown(item.path, *word) | {"memory": look.source}
            for look in audit.looks
            for item in look.files
            for word in item.unknown
        ],
    }  # fmt: skip


def _unknown(path: Path, where: Location, word: LiveWord) -> dict[str, Any]:
    return {
        "file": str(path),
        "mechanism": word.mechanism or None,
        "vaddr": None if where.vaddr is None else f"{where.vaddr:#x}",
        "symbol": where.symbol,
        "symbol_offset": where.symbol_offset,
        "words": word.words,
        "message": word.message,
        "found": list(map(hex, word.found)),
        "expected": list(map(hex, word.expected)),
    }


def _finding(audit: Audit, memory_finding: MemoryFinding) -> dict[str, Any]:
    earlier = audit.before is not None and memory_finding.memory == audit.before.source
    message = (
        f"in {memory_finding.memory}: {memory_finding.finding.message}" if earlier else memory_finding.finding.message
    )
    return finding_data(memory_finding.finding) | {"message": message, "memory": memory_finding.memory}


def _file(audited_file: AuditedFile) -> dict[str, Any]:
    return {
        "file": str(audited_file.path),
        "name": audited_file.name,
        "words": audited_file.audited.text,
        "mechanisms": [
            {"restless" if name == "unstable" else name: value for name, value in asdict(row).items()}
            for row in audited_file.audited.mechanisms
        ],
        "agreements": [
            {"name": agreement.name, "value": hex(agreement.value), "places": agreement.places}
            for agreement in audited_file.audited.agreements
        ],
        "notes": list(audited_file.audited.notes),
    }
