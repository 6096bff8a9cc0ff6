"""Known findings: a file that gives each a reason and an owner, so that ``verify`` fails for new ones only."""

from __future__ import annotations

import glob
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase, translate
from pathlib import Path, PurePath
from typing import Any, Final

from prologue.errors import InputError, UsageError
from prologue.rules.base import Finding
from prologue.rules.registry import find_rule

_HEADER: Final = """\
# Known findings of `prologue verify`. Fill in for each why it is acceptable (reason) and who decided that (owner):
# prologue refuses the file while any of these is empty. Remove entries whose findings are to be fixed.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """An entry of a baseline: which findings it covers, why, and who decided that."""

    rule: str  # code of the rule
    reason: str
    owner: str
    file: str = "*"  # glob on the last component of the path
    symbol: str | None = None  # glob; "" for findings outside of all symbols; None for any
    section: str | None = None  # the same, on the section
    count: int | None = None  # findings that it covers at most, in all files of a run
    expires: date | None = None  # the last day on which it covers anything

    def __str__(self) -> str:
        limits = [f"{key} {value!r}" for key in ("symbol", "section") if (value := getattr(self, key)) is not None]
        return " ".join([self.rule, *([] if self.file == "*" else [f"file {self.file!r}"]), *limits])


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineSplit:
    """Findings, separated by the baseline."""

    new: list[Finding]
    baselined: list[tuple[Finding, Known]]
    unused: list[Known]  # entries that match nothing
    exceeded: list[tuple[Known, int]]  # entries with more matches than their count, and how many
    expired: tuple[Known, ...] = ()
    refused: int = 0  # known findings that count as new, because a release does not accept them


def load_baseline(path: Path) -> tuple[Known, ...]:
    """Read the entries of a baseline file, in its order.

    Raises:
        InputError: it cannot be read, or an entry is wrong or not filled in.

    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read the baseline: {error.strerror}", path=path) from error
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, nested too deeply
        raise InputError(f"is not valid TOML: {error}", path=path) from error
    entries = document.pop("known", [])
    if document:
        raise InputError(f"unknown {next(iter(document))!r}: a baseline is a list of [[known]]", path=path)
    if not isinstance(entries, list):
        raise InputError("known must be a list: write [[known]] above each entry", path=path)
    return tuple(_entry(path, number, entry) for number, entry in enumerate(entries, 1))


def _entry(path: Path, number: int, entry: Any) -> Known:
    def wrong(problem: str) -> InputError:
        return InputError(f"[[known]] number {number}: {problem}", path=path)

    if not isinstance(entry, dict):
        raise wrong(f"must be a table, not {entry!r}")
    names = [field.name for field in fields(Known)]
    for key, value in entry.items():
        if key not in names:
            raise wrong(f"unknown key {key!r}: the keys are {', '.join(names)}")
        if key == "count":
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise wrong(f"count must be a positive number, not {value!r}")
        elif key == "expires":
            if isinstance(value, datetime) or not isinstance(value, date):
                raise wrong(f"expires must be a date such as 2030-12-31, without quotes, not {value!r}")
        elif not isinstance(value, str):
            raise wrong(f"{key} must be a string, not {value!r}")
    for key in ("rule", "reason", "owner"):
        if not entry.get(key, "").strip():
            raise wrong(f"{key} is missing or empty: fill it in")
    try:
        rule = find_rule(entry["rule"])
    except UsageError as error:
        raise wrong(error.message) from error
    return Known(**(entry | {"rule": rule.code}))


def in_scope(known: Iterable[Known], judged: Mapping[str, Iterable[str]]) -> tuple[Known, ...]:
    """Return the entries that this run can match. The others are not stale: they are about other files or rules.

    ``judged`` has, by code, the names of the files that a rule judged.
    """
    return tuple(k for k in known if any(fnmatchcase(name, k.file) for name in judged.get(k.rule, ())))


def split(findings: Iterable[Finding], entries: Sequence[Known], today: date | None = None) -> BaselineSplit:
    """Separate known findings from new ones.

    The first entry that matches a finding decides. An entry with more matches than its count covers none of them:
    there is no way to say which are the old ones. Nor does one that has expired (``today`` is UTC's, unless given).
    """
    day = today or datetime.now(tz=UTC).date()
    known = [entry for entry in entries if entry.expires is None or entry.expires >= day]
    matchers = [(entry, _matcher(entry)) for entry in known]
    decided = [
        (finding, next((entry for entry, matches in matchers if matches(finding)), None)) for finding in findings
    ]
    counts = Counter(entry for _, entry in decided)
    exceeded = [(k, counts[k]) for k in dict.fromkeys(known) if k.count is not None and counts[k] > k.count]
    over = {entry for entry, _ in exceeded}
    return BaselineSplit(
        new=[finding for finding, entry in decided if entry is None or entry in over],
        baselined=[(finding, entry) for finding, entry in decided if entry is not None and entry not in over],
        unused=[entry for entry in known if not counts[entry]],
        exceeded=exceeded,
        expired=tuple(entry for entry in entries if entry not in known),
    )


def _matcher(entry: Known) -> Callable[[Finding], bool]:
    """Make a test of whether an entry matches a finding; its count does not matter here.

    The globs are compiled here once: fnmatch caches only 256, and a baseline may well have more.
    """
    file, symbol, section = (
        None if pattern is None else re.compile(translate(pattern))
        for pattern in (entry.file, entry.symbol, entry.section)
    )

    def matches(finding: Finding) -> bool:
        where = finding.where
        return (
            finding.code == entry.rule
            and (symbol is None or symbol.match(where.symbol or "") is not None)
            and (section is None or section.match(where.section or "") is not None)
            and (file is None or file.match(PurePath(finding.path).name) is not None)
        )

    return matches


def baseline_notes(parts: BaselineSplit, path: Path) -> list[str]:
    """Return the notes for reports: what the baseline covers, which entries match too much, which match nothing."""
    notes: list[str] = []
    if parts.baselined:
        counts = Counter((entry.rule, entry.reason, entry.owner) for _, entry in parts.baselined)
        groups = "; ".join(f"{rule} x {count}: {reason} ({owner})" for (rule, reason, owner), count in counts.items())
        total = len(parts.baselined)
        notes.append(f"{total} known finding{'s' if total != 1 else ''} (baseline {path}): {groups}")
    notes += [
        f"baseline {path}: {entry}: {findings_now} findings, but only {entry.count} known: all count as new"
        for entry, findings_now in parts.exceeded
    ]
    notes += [
        f"baseline {path}: {entry}: expired on {entry.expires}: covers nothing; fix the findings, or decide again"
        for entry in parts.expired
    ]
    if parts.refused:
        notes.append(
            f"baseline {path}: a release accepts known findings of PL3 that are not fatal, and no others: "
            f"{parts.refused} count as new"
        )
    notes += [f"baseline {path}: {entry}: covers nothing any more: remove the entry" for entry in parts.unused]
    return notes


def baseline_text(findings: Iterable[Finding]) -> str:
    """Write a template of a baseline that covers exactly these findings; reasons and owners are left empty."""
    groups = Counter(
        (f.code, f.slug, _literal(PurePath(f.path).name), _literal(f.where.symbol or "")) for f in findings
    )
    parts = [_HEADER]
    for (code, slug, file, symbol), count in groups.items():
        parts.append(
            f"[[known]]\nrule = {_quoted(code)}  # {slug}\nfile = {_quoted(file)}\n"
            f'symbol = {_quoted(symbol)}\ncount = {count}\nreason = ""  # fill in\nowner = ""  # fill in\n'
        )
    return "\n".join(parts)


def _literal(name: str) -> str:
    """Make a glob that matches the name; ``?`` for bytes that are not UTF-8, because TOML cannot write them."""
    return "".join("?" if 0xD800 <= ord(c) <= 0xDFFF else c for c in glob.escape(name))


def _quoted(text: str) -> str:
    """Quote text as a TOML basic string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
