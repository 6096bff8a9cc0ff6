"""Findings as a SARIF 2.1.0 log, for code scanning services and viewers."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path, PurePath
from typing import Any, Final
from urllib.parse import quote_from_bytes

import prologue
from prologue.gate.baseline import Known
from prologue.gate.identity import FileIdentity
from prologue.gate.refusal import GATE_RULES
from prologue.report.rule_page import page_name, rule_page
from prologue.rules.base import Finding, Rule, Severity
from prologue.rules.registry import RULES
from prologue.words import printable

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS: Final[dict[Severity, str]] = {"fatal": "error", "error": "error", "warn": "warning", "info": "note"}
_RULES: Final = (*RULES, *GATE_RULES)
_RULE_INDEX: Final = {rule.code: index for index, rule in enumerate(_RULES)}

# Keys of run.addresses, by file and name of section: the parents that section offsets refer to.
_Sections = dict[tuple[str, str], int]


def findings_sarif(  # noqa: PLR0913  # what a report is made of
    files: list[str],
    findings: list[Finding],
    notes: list[str],
    baselined: Sequence[tuple[Finding, Known]] = (),
    unreadable: Mapping[str, str] | None = None,
    *,
    left_out: Collection[str] = (),
    memories: Sequence[str] = (),
    audited: Sequence[str] = (),
    identities: Sequence[FileIdentity] = (),
    date: str = "",
) -> dict[str, Any]:
    """Make a run with all findings; those that the baseline covers come last and are marked as suppressed.

    ``unreadable`` are messages about files that could not be verified: then the run counts as failed. ``left_out`` are
    codes of rules that did not run on some file: they are marked as disabled. ``memories`` name, for each finding, the
    memory that it was made in, and ``audited`` all memories: audits of ten boards that run one file are ten analyses.
    ``identities`` are of all files that were read, and ``date`` is the end of the run, in UTC.
    """
    errors = unreadable or {}
    all_findings = [*findings, *(finding for finding, _ in baselined)]
    known_files = {str(identity.path): identity for identity in identities}
    named = [*files, *errors, *(f.path for f in all_findings), *audited, *known_files]
    paths = {path: index for index, path in enumerate(dict.fromkeys(named))}
    sections: _Sections = {}
    for finding in all_findings:
        if finding.where.section is not None:
            sections.setdefault((finding.path, finding.where.section), len(sections))
    places = list(memories) or [""] * len(all_findings)
    results = [
        _result(finding, memory, paths, sections)
        # GitHub reads only the one with CodeQL's name.
        | {"partialFingerprints": {"primaryLocationLineHash": f"{digest[:16]}:1", "prologueFinding/v1": digest}}
        for finding, memory, digest in zip(all_findings, places, _fingerprints(all_findings, places), strict=True)
    ]
    if baselined:
        # SARIF 3.27.23: once one result says whether it is suppressed, all must.
        known: list[Known | None] = [*(None for _ in findings), *(entry for _, entry in baselined)]
        for result, entry in zip(results, known, strict=True):
            why = None if entry is None else printable(f"{entry.reason} ({entry.owner})")
            result["suppressions"] = [] if why is None else [{"kind": "external", "justification": why}]
    unread = [
        {"level": "error", "message": _message(error), "locations": [
            {"physicalLocation": {"artifactLocation": {"uri": _uri(path), "index": paths[path]}}}]}
        for path, error in errors.items()
    ]  # fmt: skip
    url = documentation()
    driver = {"name": "prologue", "version": prologue.__version__, "rules": [_descriptor(rule, url) for rule in _RULES]}
    run: dict[str, Any] = {
        "tool": {"driver": driver | ({"informationUri": url} if url else {})},
        "invocations": [_invocation(notes, unread, left_out, date)],
        "artifacts": [_artifact(path, known_files.get(path)) for path in paths],
        "addresses": [
            {"kind": "section", "name": printable(name), "fullyQualifiedName": printable(f"{path}:{name}")}
            for path, name in sections
        ],
        "results": results,
    }
    if audited:  # SARIF 3.17.3: all before the last slash says what this analysis is of
        run["automationDetails"] = {"id": printable(f"prologue live audit of {', '.join(audited)}/")}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _invocation(notes: list[str], unread: list[dict[str, Any]], left_out: Collection[str], date: str) -> dict[str, Any]:
    """Say how the run ended, what it did not read, and which rules it left out."""
    return {
        "executionSuccessful": not unread,
        **({"endTimeUtc": date} if date else {}),
        "toolExecutionNotifications": [*({"level": "note", "message": _message(note)} for note in notes), *unread],
        "ruleConfigurationOverrides": [
            {"descriptor": {"id": code, "index": _RULE_INDEX[code]}, "configuration": {"enabled": False}}
            for code in sorted(left_out)
        ],
    }


def documentation() -> str:
    """Return the URL of the documentation in this package's metadata, with a slash at its end; empty if it has none."""
    try:
        urls = metadata("prologue").get_all("Project-URL") or []
    except PackageNotFoundError:  # run from its sources
        return ""
    named = dict(url.split(", ", 1) for url in urls)
    return f"{named['Documentation'].rstrip('/')}/" if "Documentation" in named else ""


def _descriptor(rule: Rule, url: str) -> dict[str, Any]:
    page = {"helpUri": f"{url}rules/{page_name(rule).removesuffix('.md')}.html"} if url and rule in RULES else {}
    return page | {
        "id": rule.code,
        "name": "".join(part.capitalize() for part in rule.slug.split("-")),
        "shortDescription": _message(rule.what),
        "fullDescription": _message(rule.why),
        # GitHub shows this beside an alert: the rule's whole page.
        "help": {**_message(rule.fix), "markdown": rule_page(rule)},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"severity": rule.severity, "inputs": list(rule.inputs), "source": rule.citation},
    }


def _artifact(path: str, identity: FileIdentity | None) -> dict[str, Any]:
    """Make the entry of a file, with its hash and what it says of itself, if they are known."""
    compared = identity is not None and identity.role != "judged"
    artifact: dict[str, Any] = {
        "location": {"uri": _uri(path)},
        "roles": ["referencedOnCommandLine" if compared else "analysisTarget"],
    }
    known = identity.named() if identity is not None else {}
    if sha256 := known.pop("sha256", ""):
        artifact["hashes"] = {"sha-256": sha256}
    return artifact | ({"properties": known} if known else {})


def _result(finding: Finding, memory: str, paths: dict[str, int], sections: _Sections) -> dict[str, Any]:
    """Make a result; ``memory`` is empty for findings in files."""
    where = finding.where
    named = {"memory": memory} if memory else {}
    after = f" (follows from {', '.join(finding.follows_from)})" if finding.follows_from else ""
    return {
        "ruleId": finding.code,
        "ruleIndex": _RULE_INDEX[finding.code],
        "level": _LEVELS[finding.severity],
        "message": _message(f"{f'in {memory}: ' if memory else ''}{where}: {finding.message}{after}"),
        "locations": [_location(finding, paths, sections)],
        "properties": {
            "severity": finding.severity,
            "vaddr": None if where.vaddr is None else f"{where.vaddr:#x}",
            "found": [f"{word:#x}" for word in finding.found],
            "expected": [f"{word:#x}" for word in finding.expected],
            **named,
            "followsFrom": list(finding.follows_from),
        },
    }


def _location(finding: Finding, paths: dict[str, int], sections: _Sections) -> dict[str, Any]:
    """Place of a finding, without ``absoluteAddress``.

    The schema sets no upper bound for it, but readers do: Microsoft's SDK rejects the whole log when an address
    exceeds 31 bits, and all kernel addresses do. They are in the properties, as text, as in prologue's JSON.
    """
    where = finding.where
    physical: dict[str, Any] = {
        "artifactLocation": {"uri": _uri(finding.path), "index": paths[finding.path]},
    }
    place = None if where.section is None else f"{where.section}+{where.section_offset:#x}"
    if where.section is not None and place is not None:
        physical["address"] = {
            "name": printable(where.symbol or where.section),
            "fullyQualifiedName": printable(place),
            "parentIndex": sections[finding.path, where.section],
            "offsetFromParent": where.section_offset,
            "relativeAddress": where.section_offset,
        }
    # GitHub shows no alert without a line. Binary files have none: all their findings are at the first.
    physical["region"] = {"startLine": 1}
    location: dict[str, Any] = {"physicalLocation": physical}
    name = place if where.symbol is None else f"{where.symbol}+{where.symbol_offset:#x}"
    if name is not None:
        location["logicalLocations"] = [
            {"name": printable(where.symbol or where.section or ""), "fullyQualifiedName": printable(name)}
        ]
    return location


def _fingerprints(findings: Iterable[Finding], memories: Iterable[str]) -> list[str]:
    """Return a fingerprint for each finding: unique within a run, and the same after a rebuild that moves functions.

    Addresses and section offsets change with every link, so they count only if there is no symbol. Static functions
    of one name have the same identity; their order in the file separates them.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    prints: list[str] = []
    for finding, memory in zip(findings, memories, strict=True):
        where = finding.where
        place = (where.section, where.section_offset) if where.symbol is None else (where.symbol, where.symbol_offset)
        identity: tuple[str, ...] = (finding.code, PurePath(finding.path).name, str(place[0]), f"{place[1]:#x}")
        identity += (PurePath(memory).name,) if memory else ()
        text = "\0".join([*identity, str(seen[identity])])
        seen[identity] += 1
        prints.append(hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest())
    return prints


def _message(text: str) -> dict[str, str]:
    """Make a message: braces mean placeholders there, so braces of the text are doubled."""
    return {"text": printable(text).replace("{", "{{").replace("}", "}}")}


def _uri(path: str) -> str:
    """Return the URI reference of a path: a file URI if it is absolute, otherwise relative to the working directory."""
    pure = Path(path)
    try:
        raw = str(pure).encode("utf-8", "surrogateescape")  # what the file system has
    except UnicodeEncodeError:  # a name that does not come from a file system
        raw = str(pure).encode("utf-8", "surrogatepass")
    return ("file://" if pure.is_absolute() else "") + quote_from_bytes(raw)
