"""The outcome of an audit, in both of its memories if there are two: findings and errors."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from prologue.errors import UNDECIDED, PrologueError
from prologue.live.audit.run import Audit
from prologue.rules.base import Finding


class MemoryFinding(NamedTuple):
    """A finding, and the memory that it was made in."""

    memory: str
    finding: Finding

    @property
    def named(self) -> Finding:
        """The finding with its memory before the file: ten boards run one vmlinux."""
        return replace(self.finding, path=name_in(self.memory, self.finding.path))


def name_in(memory: str, path: object) -> str:
    """Return the name that reports give a file as it ran in one memory."""
    return f"{memory}: {path}"


def every_finding(audit: Audit) -> list[MemoryFinding]:
    """Return the findings of both audits, the earlier ones first."""
    return [MemoryFinding(look.source, finding) for look in audits_of(audit) for finding in look.findings]


def audits_of(audit: Audit) -> list[Audit]:
    """Return the audits of the earlier memory, if there is one, and of the later."""
    return [*([audit.before] if audit.before is not None else []), replace(audit, before=None)]


def all_errors(audit: Audit) -> list[PrologueError]:
    """Return the errors of modules that could not be audited, in either memory; each once."""
    earlier = audit.before.errors if audit.before is not None else ()
    return list({str(error): error for error in (*earlier, *audit.errors)}.values())


def exit_code(audit: Audit, *, lacking_allowed: bool) -> int:
    """Return the exit code of an audit: not read comes before wrong, and that before not decided."""
    errors = all_errors(audit)
    unread = [error.exit_code for error in errors if error.exit_code != UNDECIDED]
    if audit.mismatch or unread:
        return max(unread, default=2)
    return 1 if audit.failed else 0 if audit.passes(lacking_allowed=lacking_allowed) else UNDECIDED
