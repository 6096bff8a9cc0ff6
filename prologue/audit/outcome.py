"""What an audit comes to, in both of its memories if there are two: what is wrong, and what is left open."""

from __future__ import annotations

from prologue.audit.run import Audit
from prologue.errors import PrologueError
from prologue.rules.base import FAILING, Finding
from prologue.rules.live import Undecided, undecided


def failed(audit: Audit) -> bool:
    """Whether a finding makes the audit fail, of either memory, or a change between them."""
    wrong = any(finding.severity in FAILING for finding in every_finding(audit))
    return wrong or not all(transition.allowed for transition in audit.transitions)


def is_open(audit: Audit, *, lacking_allowed: bool) -> bool:
    """Whether words are left that may not be taken for right."""
    words = all_undecided(audit)
    return bool(words.restless or words.unknown or (words.lacking and not lacking_allowed))


def every_finding(audit: Audit) -> list[Finding]:
    """Those of both audits; the earlier ones say so."""
    earlier = audit.before.findings if audit.before is not None else ()
    source = audit.before.source if audit.before is not None else ""
    return [*(f._replace(message=f"in {source}: {f.message}") for f in earlier), *audit.findings]


def all_errors(audit: Audit) -> list[PrologueError]:
    """Of modules that could not be audited, in either memory; what both have is said once."""
    earlier = audit.before.errors if audit.before is not None else ()
    return list({str(error): error for error in (*earlier, *audit.errors)}.values())


def all_undecided(audit: Audit) -> Undecided:
    """Words of all files, in both memories if there are two."""
    files = [one.audited for every in (audit.before, audit) if every is not None for one in every.files]
    return undecided(files)
