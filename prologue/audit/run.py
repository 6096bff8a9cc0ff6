"""One audit: the kernel, and what its memory says of it; a running one is asked again before it is accused."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from prologue.audit.kernel import audit_kernel, read_facts
from prologue.errors import InputError
from prologue.memory.base import Memory
from prologue.memory.state import KernelState
from prologue.rules.base import Finding, Subject
from prologue.rules.engine import run_rules
from prologue.rules.live import Audited, LiveWord
from prologue.rules.registry import RULES
from prologue.sites.kernel import Kernel
from prologue.sites.running import AnotherKernelError, RunningKernel, open_running

_TRIES: Final = 3  # further looks at a running kernel of which something seems wrong
LIVE_RULES: Final = tuple(rule for rule in RULES if "C" in rule.inputs)


class AuditedFile(NamedTuple):
    """One file and what was found in its text."""

    path: Path
    name: str  # "kernel", or a module's
    audited: Audited
    findings: tuple[Finding, ...]


class Audit(NamedTuple):
    """Everything that a report is made of; ``slide`` in bytes, None where the memory is another kernel's."""

    source: str
    release: str
    slide: int | None
    files: tuple[AuditedFile, ...]
    notes: tuple[str, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Those of all files."""
        return tuple(finding for one in self.files for finding in one.findings)


def audit(vmlinux: Path, memory: Memory) -> Audit:
    """Judge the text of the kernel in memory.

    Raises:
        InputError: the vmlinux cannot be read or is stripped, or memory cannot be read.

    """
    try:
        image = open_running(vmlinux, memory)
        kernel = RunningKernel(image, memory)
    except AnotherKernelError as error:
        return _mismatch(vmlinux, memory, error)
    state, notes = _state(memory)
    audited = audit_kernel(kernel, read_facts(kernel, state))
    for _ in range(_TRIES if memory.live else 0):
        if not audited.words:
            break
        kernel = RunningKernel(image, memory)
        state, notes = _state(memory)
        audited = _again(audited, audit_kernel(kernel, read_facts(kernel, state)))
    file = AuditedFile(vmlinux, "kernel", audited, run_rules(Subject(kernel, live=audited), LIVE_RULES))
    return Audit(memory.name, memory.info.release or kernel.release, kernel.slide, (file,), tuple(notes))


def _mismatch(vmlinux: Path, memory: Memory, error: AnotherKernelError) -> Audit:
    audited = Audited((), (), 0, (), mismatch=str(error))
    findings = run_rules(Subject(Kernel(vmlinux), live=audited), LIVE_RULES)
    file = AuditedFile(vmlinux, "kernel", audited, findings)
    return Audit(memory.name, memory.info.release, None, (file,), ())


def _state(memory: Memory) -> tuple[KernelState | None, list[str]]:
    """What the kernel says of itself; of a dump that is drgn's business, and the tables in its memory do as well."""
    try:
        return memory.state(), []
    except InputError:
        return None, []


def _again(before: Audited, now: Audited) -> Audited:
    """What is wrong in two looks at a running kernel is wrong; what is wrong in one only did not come to rest."""
    seen = {(word.kind, word.vaddr, word.live) for word in before.words}
    words = tuple(word if (word.kind, word.vaddr, word.live) in seen else _restless(word) for word in now.words)
    return now._replace(words=words)


def _restless(word: LiveWord) -> LiveWord:
    return word._replace(kind="unstable", message=f"{word.message}; it was not so a moment before")
