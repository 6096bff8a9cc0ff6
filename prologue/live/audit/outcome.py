"""What an audit comes to, in both of its memories if there are two: what is wrong, and what is left open."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from prologue.errors import PrologueError
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
    """What reports call a file as it ran in one memory."""
    return f"{memory}: {path}"


def every_finding(audit: Audit) -> list[MemoryFinding]:
    """Findings of both audits, the earlier ones first."""
    return [MemoryFinding(every.source, finding) for every in audits_of(audit) for finding in every.findings]


def audits_of(audit: Audit) -> list[Audit]:
    """The audits of the earlier memory, if there is one, and of the later."""
    return [*([audit.before] if audit.before is not None else []), replace(audit, before=None)]


def all_errors(audit: Audit) -> list[PrologueError]:
    """Of modules that could not be audited, in either memory; what both have is said once."""
    earlier = audit.before.errors if audit.before is not None else ()
    return list({str(error): error for error in (*earlier, *audit.errors)}.values())
