"""The audit of a kernel and its memory; a finding on a running kernel must repeat in a second reading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Final
from uuid import UUID

from prologue.errors import Location, PrologueError
from prologue.kernel.kernel import Kernel
from prologue.live.audit.audit_kernel import audit_kernel, read_facts
from prologue.live.audit.audit_modules import audit_modules
from prologue.live.audit.audited import Audited, LiveWord, MechanismCount, Undecided, undecided
from prologue.live.audit.findings import MISMATCH, audit_findings
from prologue.live.memory.state import KernelState
from prologue.live.structs.variables import Variables
from prologue.live.system.own_text import AnotherKernelError
from prologue.live.system.running_kernel import RunningKernel
from prologue.live.system.running_module import RunningModule
from prologue.live.system.running_system import RunningSystem
from prologue.rules.base import FAILING, Finding, Rule, Subject
from prologue.rules.engine import run_rules
from prologue.rules.registry import RULES

NOT_ALLOWED: Final = "NOT ALLOWED live"
RunningBinary = RunningKernel | RunningModule
KERNEL: Final = "kernel"  # name of the vmlinux among the files
_TRIES: Final = 3  # further looks at a running kernel of which something seems wrong
LIVE_RULES: Final = tuple(rule for rule in RULES if "C" in rule.inputs)


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
    def _looks(self) -> tuple[Audit, ...]:
        """The audit of the earlier memory, if there is one, and this one."""
        return (self,) if self.before is None else (self.before, self)

    @property
    def undecided(self) -> Undecided:
        """Words of all files, in both memories if there are two, that are not known to be right or wrong."""
        return undecided(file.audited for look in self._looks for file in look.files)

    @property
    def failed(self) -> bool:
        """True if a finding of either memory, or a change between them, makes the audit fail."""
        wrong = any(finding.severity in FAILING for look in self._looks for finding in look.findings)
        return wrong or not all(transition.allowed for transition in self.transitions)

    def is_open(self, *, lacking_allowed: bool) -> bool:
        """Return whether words, or what is attached, are left that may not be taken for right."""
        words = self.undecided
        hooks = any(look.open_hooks or look.open_lists for look in self._looks)
        return bool(words.unstable or words.unknown or hooks or (words.lacking and not lacking_allowed))

    def passes(self, *, lacking_allowed: bool) -> bool:
        """Return whether nothing is wrong, every module could be audited, and no word is open."""
        errors = any(look.errors for look in self._looks)
        return not (self.failed or errors or self.is_open(lacking_allowed=lacking_allowed))

    @property
    def passed(self) -> bool:
        """True if nothing is wrong, every module could be audited, and every word was decided."""
        return self.passes(lacking_allowed=False)


def audit(system: RunningSystem, rules: tuple[Rule, ...] = LIVE_RULES) -> Audit:
    """Judge the text of the kernel in memory, and of its modules, if the system has their files.

    Raises:
        InputError: the vmlinux cannot be read or is stripped, or memory cannot be read.

    """
    try:
        return with_findings(look_at(system), rules)
    except AnotherKernelError as error:
        return mismatch_audit(system, error)


def look_at(system: RunningSystem) -> Audit:
    """Judge all words, without findings by rules; of a running kernel several times, if something seems wrong.

    Raises:
        AnotherKernelError: memory is another kernel's.
        InputError: as ``audit``.

    """
    look = latest = _look(system)
    for _ in range(_TRIES if system.memory.live else 0):
        if not any(file.audited.words or undecided([file.audited]).unstable for file in look.files):
            break
        # Compared with the look itself, not with the confirmed one, in which new words are not wrong.
        before, latest = latest, _look(system.reread())
        look = _confirmed(before, latest)
    return look


def with_findings(look: Audit, rules: tuple[Rule, ...], before: Audit | None = None) -> Audit:
    """Add findings by the rules to a look; ``before`` is an earlier look at the same boot."""
    earlier = {file.name: file.binary for file in before.files} if before is not None else {}
    return replace(look, files=tuple(_with_findings(file, earlier.get(file.name), rules) for file in look.files))


def _with_findings(file: AuditedFile, before: RunningBinary | None, rules: tuple[Rule, ...]) -> AuditedFile:
    binary, audited = file.binary, file.audited
    if binary is None:
        return file
    words = [word for word in audited.words if word.kind == "unknown"]
    places = binary.symbols.locate_all([word.vaddr for word in words]) if words else []
    open_words = {word.vaddr for word in words}
    # PL308, PL309 and PL310 read the text themselves, and would accuse words that the audit cannot decide.
    read = [f for f in run_rules(Subject(binary, before, running=True), rules) if f.where.vaddr not in open_words]
    findings = tuple(sorted([*read, *audit_findings(binary, audited, rules)], key=attrgetter("code")))
    return replace(file, findings=findings, unknown=tuple(zip(places, words, strict=True)))


def mismatch_audit(system: RunningSystem, error: AnotherKernelError) -> Audit:
    """Make an audit that says only that it is another kernel."""
    vmlinux, memory = system.image.path, system.memory
    audited = Audited(words=(), mechanisms=(), text=0, unlooked=(), mismatch=str(error))
    findings = tuple(audit_findings(Kernel(system.image), audited, LIVE_RULES))
    file = AuditedFile(path=vmlinux, name=KERNEL, audited=audited, findings=findings)
    return Audit(
        source=memory.name, release=memory.info.release, slide=None, files=(file,), notes=(),
        left_out={rule.code: "not run: memory is of another kernel" for rule in LIVE_RULES if rule is not MISMATCH},
    )  # fmt: skip


def _look(system: RunningSystem) -> Audit:
    kernel, memory = system.kernel.with_own_text(), system.memory
    # A dump's list of modules takes drgn and DWARF; the kernel's own text needs neither.
    state = system.state if system.files is not None else system.state_without_dwarf()
    facts = read_facts(kernel, state)
    files = [AuditedFile(path=kernel.path, name=KERNEL, audited=audit_kernel(kernel, facts), binary=kernel)]
    notes: list[str] = []
    errors: tuple[PrologueError, ...] = ()
    if system.files is not None:
        done = audit_modules(system, facts)
        files += [
            AuditedFile(path=module.path, name=name, audited=audited, binary=module)
            for name, module, audited in done.done
        ]
        notes, errors = [*done.unlooked], done.errors
    elif state is None:
        notes.append("text of modules: name their files, --modules DIR")
    elif state.modules:
        count = len(state.modules)
        notes.append(f"text of {count:,} module{'s' if count != 1 else ''}: name their files, --modules DIR")
    notes += _foreign(state)
    if not facts.breakpoints.complete:
        listed = facts.variables.layouts.get("kprobe.addr") is not None
        reason = "not listed by this source (a capture needs debugfs)" if listed else "struct kprobe is not known"
        notes.append(f"kprobes: {reason}")
    if not facts.breakpoints.kgdb_complete:
        notes.append("breakpoints of kgdb: kgdb_break cannot be read")
    return Audit(
        source=memory.name,
        boot_id=(state.boot_id if state else "") or _boot_id(facts.variables),
        slide=kernel.slide,
        release=kernel.running_release,
        files=tuple(files),
        notes=tuple(notes),
        errors=errors,
        struct_offsets=facts.variables.layouts.source,
    )


def _boot_id(variables: Variables) -> str:
    """Return boot_id of /proc as memory has it (``proc_do_uuid``, drivers/char/random.c, 5.10-7.3); empty if unset."""
    place = variables.place("sysctl_bootid")
    data = None if place is None else variables.read(place, 16)
    return str(UUID(bytes=data)) if data and data[8] else ""


def _foreign(state: KernelState | None) -> Iterator[str]:
    """Name text that has no file."""
    modules = {module.name for module in state.modules} if state else set()
    owners = Counter(symbol.owner for symbol in state.symbols if symbol.owner not in modules) if state else Counter()
    for owner, count in sorted(owners.items()):
        if owner:
            yield f"text of {owner}: {count:,} symbol{'s' if count != 1 else ''}, which no file has"


def _confirmed(before: Audit, now: Audit) -> Audit:
    """Return the second of two looks at a running kernel; a word that is wrong in this one only is unstable."""
    seen = {(file.name, word.kind, word.vaddr, word.found) for file in before.files for word in file.audited.words}
    files = []
    for file in now.files:
        words = file.audited.words
        new = {word for word in words if (file.name, word.kind, word.vaddr, word.found) not in seen}
        files.append(replace(file, audited=_mark_unstable(file.audited, new)))
    return replace(now, files=tuple(files))


def _mark_unstable(audited: Audited, new: set[LiveWord]) -> Audited:
    """Make ``new`` words unstable: not wrong, and not decided."""
    words = tuple(_unstable(word) if word in new else word for word in audited.words)
    wrong, unknown = Counter[str](), Counter[str]()
    for word in new:
        if word.kind == "unknown":
            unknown[word.mechanism] += word.words
        elif word.kind != "unstable":
            wrong[word.mechanism] += word.words
    rows = tuple(_recounted(row, wrong[row.mechanism], unknown[row.mechanism]) for row in audited.mechanisms)
    return replace(
        audited,
        words=words,
        mechanisms=rows,
        unstable=audited.unstable + wrong[""] + unknown[""],
        unknown=audited.unknown - unknown[""],
    )


def _recounted(row: MechanismCount, wrong: int, unknown: int) -> MechanismCount:
    return replace(
        row,
        wrong=row.wrong - wrong,
        unsure=row.unsure + wrong,
        unstable=row.unstable + wrong + unknown,
        unknown=row.unknown - unknown,
    )


def _unstable(word: LiveWord) -> LiveWord:
    if word.kind == "unstable":
        return word
    return replace(word, kind="unstable", message=f"{word.message}; it was not so a moment before")
