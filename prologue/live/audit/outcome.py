"""The outcome of an audit, in both of its memories if there are two: files, findings, changes, and errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from prologue.errors import UNDECIDED, Location, PrologueError
from prologue.live.audit.audited import Audited, LiveWord, Undecided, undecided
from prologue.live.system.running_kernel import RunningKernel
from prologue.live.system.running_module import RunningModule
from prologue.rules.base import FAILING, Finding

NOT_ALLOWED: Final = "NOT ALLOWED live"
RunningBinary = RunningKernel | RunningModule
KERNEL: Final = "kernel"  # name of the vmlinux among the files


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """Words of one mechanism that became another instruction between two looks, and whether they might."""

    mechanism: str
    old: str
    new: str
    words: int
    verdict: str

    @property
    def allowed(self) -> bool:
        """True if the architecture lists it, or no CPU executes the word."""
        return self.verdict != NOT_ALLOWED


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedFile:
    """A file, the audit of its text, and its findings; ``binary`` is None if memory is another kernel's.

    ``unknown`` are words that do not fit, and of which the right ones are not known; their messages have the reason.
    """

    path: Path
    name: str  # "kernel", or a module's
    audited: Audited
    findings: tuple[Finding, ...] = ()
    unknown: tuple[tuple[Location, LiveWord], ...] = ()
    binary: RunningBinary | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Everything that a report is made of; ``slide`` in bytes, None if the memory is another kernel's.

    ``notes`` name text that was not looked at; ``errors`` are of modules that could not be audited. ``before`` is the
    audit of an earlier memory of this boot, and ``transitions`` has the changes since.
    """

    source: str
    release: str
    slide: int | None
    files: tuple[AuditedFile, ...]
    notes: tuple[str, ...]
    errors: tuple[PrologueError, ...] = ()
    before: Audit | None = None
    transitions: tuple[Transition, ...] = ()
    struct_offsets: str = ""  # where those of the kernel's structs come from; empty if nothing was read
    left_out: Mapping[str, str] = field(default_factory=dict)  # codes of rules that did not run, and why
    open_hooks: int = 0  # of what is attached: suspects on a release that was not compared
    open_lists: int = 0  # of what is attached: lists and checks of which memory does not say what it should
    boot_id: str = ""

    @property
    def kernel(self) -> RunningKernel | None:
        """The kernel with the text that memory has, without breakpoints; None if memory is another kernel's."""
        return next((file.binary for file in self.files if isinstance(file.binary, RunningKernel)), None)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings of all files."""
        return tuple(finding for file in self.files for finding in file.findings)

    @property
    def mismatch(self) -> str:
        """Reason why the memory is another kernel's; empty if it is not."""
        return next((file.audited.mismatch for file in self.files if file.audited.mismatch), "")

    @property
    def looks(self) -> tuple[Audit, ...]:
        """The audit of the earlier memory, if there is one, and that of the later, each by itself."""
        return (self,) if self.before is None else (self.before, replace(self, before=None))

    @property
    def every_finding(self) -> list[MemoryFinding]:
        """The findings in both memories, the earlier ones first."""
        return [MemoryFinding(look.source, finding) for look in self.looks for finding in look.findings]

    @property
    def all_errors(self) -> list[PrologueError]:
        """The errors of modules that could not be audited, in either memory; each once."""
        return list({str(error): error for look in self.looks for error in look.errors}.values())

    @property
    def undecided(self) -> Undecided:
        """Words of all files, in both memories if there are two, that are not known to be right or wrong."""
        return undecided(file.audited for look in self.looks for file in look.files)

    @property
    def failed(self) -> bool:
        """True if a finding of either memory, or a change between them, makes the audit fail."""
        wrong = any(finding.severity in FAILING for look in self.looks for finding in look.findings)
        return wrong or not all(transition.allowed for transition in self.transitions)

    def is_open(self, *, lacking_allowed: bool) -> bool:
        """Return whether words, or what is attached, are left that may not be taken for right."""
        words = self.undecided
        hooks = any(look.open_hooks or look.open_lists for look in self.looks)
        return bool(words.unstable or words.unknown or hooks or (words.lacking and not lacking_allowed))

    def passes(self, *, lacking_allowed: bool) -> bool:
        """Return whether nothing is wrong, every module could be audited, and no word is open."""
        return not (self.failed or self.all_errors or self.is_open(lacking_allowed=lacking_allowed))

    @property
    def passed(self) -> bool:
        """True if nothing is wrong, every module could be audited, and every word was decided."""
        return self.passes(lacking_allowed=False)

    def exit_code(self, *, lacking_allowed: bool) -> int:
        """Return the exit code of an audit: not read comes before wrong, and that before not decided."""
        unread = [error.exit_code for error in self.all_errors if error.exit_code != UNDECIDED]
        if self.mismatch or unread:
            return max(unread, default=2)
        return 1 if self.failed else 0 if self.passes(lacking_allowed=lacking_allowed) else UNDECIDED
