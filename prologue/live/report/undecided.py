"""Words that an audit of running text could not decide, or that did not come to rest: counts, reasons, remedies.

And words that only the agreement of several places decided.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from prologue.live.audit.outcome import Audit, name_in
from prologue.words import counted, printable

_AGAIN: Final = "take memory again while no tracers or probes are switched, or a dump of the stopped machine"
_MISSING: Final = "a part of memory was not copied, or could not be read: take a capture or a dump"
_LACKING: Final = 'nothing that was read decides them (prologue help live.md "What it could not decide")'
_UNKNOWN: Final = "they do not fit what is known, and what this kernel does there is not known"
_NO_SUSPECT: Final = "this release was not compared, or memory was captured while it was being changed; see the notes"
_DAMAGED: Final = (
    "memory is damaged there, lacks something, or was being changed; the notes name them: read memory again, or a dump"
)
_REPORT: Final = "see whether the kernel's sources explain these words; then report a gap of prologue, with the release"
_SHOWN: Final = 5  # words of one file in the text


def counted_undecided(audit: Audit) -> list[str]:
    """Count undecided words, suspects and lists, for the last line; nothing if all were decided."""
    count, looks = sum(audit.undecided), audit.looks
    hooks, lists = sum(look.open_hooks for look in looks), sum(look.open_lists for look in looks)
    counts = [f"{counted(count, 'word')} not decided"] if count else []
    counts += [f"{counted(hooks, 'suspect')} not decided among what is attached"] if hooks else []
    return [*counts, *([f"{counted(lists, 'question')} not decided about what is attached"] if lists else [])]


def why_undecided(audit: Audit) -> list[str]:
    """Return a line for each reason, with the remedy."""
    words = audit.undecided
    lines = []
    if words.unstable:
        lines.append(f"not decided: being changed while they were read: {words.unstable:,}; {_AGAIN}")
    missing = sum(audited_file.audited.missing for look in audit.looks for audited_file in look.files)
    if missing:
        lines.append(f"not decided: text that the kernel keeps and memory does not have: {missing:,}; {_MISSING}")
    if words.lacking > missing:
        lines.append(f"not decided: right in form: {words.lacking - missing:,}; {_LACKING}")
    if words.unknown:
        lines.append(f"not decided: {words.unknown:,}: {_UNKNOWN}")
    if hooks := sum(look.open_hooks for look in audit.looks):
        lines.append(f"not decided: {counted(hooks, 'suspect')} among what is attached: {_NO_SUSPECT}")
    if lists := sum(look.open_lists for look in audit.looks):
        lines.append(f"not decided: {counted(lists, 'question')} about what is attached: {_DAMAGED}")
    return lines


def unknown_lines(audit: Audit, *, show_all: bool) -> list[str]:
    """List words that do not fit, and of which the right ones are not known: the first few of each file."""
    lines: list[str] = []
    for look in audit.looks:
        for audited_file in look.files:
            if not audited_file.unknown:
                continue
            shown = audited_file.unknown if show_all else audited_file.unknown[:_SHOWN]
            lines.append(
                printable(f"{name_in(look.source, audited_file.path)}: not decided: {len(audited_file.unknown):,}")
            )
            lines += [printable(f"  {where}: {word.message}") for where, word in shown]
            if len(audited_file.unknown) > len(shown):
                lines.append(f"  ... and {len(audited_file.unknown) - len(shown):,} more (--all)")
    return [*lines, f"  to do: {_REPORT}"] if lines else []


def agreement_lines(audit: Audit) -> list[str]:
    """Return a line for each mechanism with words that are right because all places of a value agree."""
    counts: Counter[str] = Counter()
    for row in (row for item in audit.files for row in item.audited.mechanisms):
        counts[row.mechanism] += row.agreed
    named = [f"{item.name} at {item.places} places" for file in audit.files for item in file.audited.agreements]
    names = f" ({', '.join(named)})" if named else ""
    return [
        f"decided by agreement: {count:,} words of {mechanism}: no variable says them, their places agree{names}"
        for mechanism, count in counts.items()
        if count
    ]
