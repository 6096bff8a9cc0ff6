"""``Audit.passed`` and ``Audit.undecided``: what scripts ask."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from prologue.errors import InputError, OutputError
from prologue.live.audit.audited import Audited, Undecided
from prologue.live.audit.outcome import NOT_ALLOWED, Audit, AuditedFile, Transition
from prologue.live.report.audit import not_looked_at
from prologue.live.report.strips import plot_audit
from prologue.report.pictures import OWN


def audit_of(**how: int) -> Audit:
    audited = Audited(words=(), mechanisms=(), text=1, unlooked=(), **how)  # type: ignore[arg-type]  # counts only
    file = AuditedFile(path=Path("vmlinux"), name="kernel", audited=audited, findings=())
    return Audit(source="core", release="", slide=0, files=(file,), notes=())


def changed(audit: Audit, **fields: object) -> Audit:
    return replace(audit, **fields)  # type: ignore[arg-type]  # of several types


def test_what_is_decided_passes() -> None:
    assert audit_of().passed
    assert audit_of().undecided == Undecided(0, 0, 0)


@pytest.mark.parametrize("count", ["unstable", "missing", "unknown"])
def test_what_is_not_decided_does_not(count: str) -> None:
    assert not audit_of(**{count: 1}).passed
    assert not changed(audit_of(), before=audit_of(**{count: 1})).passed
    assert sum(_numbers(audit_of(**{count: 2}).undecided)) == 2


def _numbers(words: Undecided) -> tuple[int, int, int]:
    return words.unstable, words.lacking, words.unknown


def test_modules_that_were_not_audited_and_changes_that_are_not_allowed() -> None:
    error = InputError("another build", path="a.ko")
    assert not changed(audit_of(), errors=(error,)).passed
    assert not changed(audit_of(), before=changed(audit_of(), errors=(error,))).passed
    moves = [Transition(mechanism="", old="", new="", words=1, verdict=verdict) for verdict in ("allowed", NOT_ALLOWED)]
    assert [changed(audit_of(), transitions=(move,)).passed for move in moves] == [True, False]


def test_the_earlier_memory_has_its_notes() -> None:
    """The exit code counts what is not decided there, so the report names it."""
    before = replace(audit_of(), source="early", notes=("BPF programs: a damaged list",))
    lines = not_looked_at(replace(audit_of(), before=before, notes=("text of 3 modules",)))
    assert lines == ["early: BPF programs: a damaged list", "text of 3 modules"]


def test_no_picture_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="no mechanism of this kernel owns a word of its text"):
        plot_audit(audit_of(), tmp_path / "out.svg", OWN)
