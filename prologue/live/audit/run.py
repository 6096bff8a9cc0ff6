"""The audit of a kernel and its memory; a finding on a running kernel must repeat in a second reading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Final
from uuid import UUID

from prologue.errors import PrologueError, UsageError
from prologue.kernel.binary import Binary
from prologue.kernel.kernel import Kernel
from prologue.live.audit.audit_kernel import audit_kernel, read_facts
from prologue.live.audit.audit_modules import audit_modules
from prologue.live.audit.audited import Audited, LiveKind, LiveWord, MechanismCount, undecided
from prologue.live.audit.outcome import KERNEL, Audit, AuditedFile, RunningBinary
from prologue.live.memory.state import KernelState
from prologue.live.structs.variables import Variables
from prologue.live.system.running_system import RunningSystem
from prologue.live.system.running_text import AnotherKernelError
from prologue.rules.base import Finding, Hit, Rule, Subject
from prologue.rules.engine import run_rules
from prologue.rules.registry import RULES, find_rule

_CODES: Final[dict[LiveKind, str]] = {
    "first slot": "PL501",
    "call": "PL502",
    "unexplained": "PL503",
    "unstable": "PL504",
    "word": "PL508",
}
MISMATCH: Final = find_rule("PL505")
REPORTED: Final = frozenset((MISMATCH.code, *_CODES.values()))
"""Codes of the rules whose findings only an audit makes."""
_TRIES: Final = 3  # further looks at a running kernel of which something seems wrong
LIVE_RULES: Final = tuple(rule for rule in RULES if "C" in rule.inputs)


def live_rules(chosen: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return the chosen rules that judge running text.

    Raises:
        UsageError: there is none.

    """
    rules = tuple(rule for rule in LIVE_RULES if rule in chosen)
    if not rules:
        raise UsageError(f"no rule is left that judges running text: {', '.join(rule.code for rule in LIVE_RULES)}")
    return rules


def audit_findings(binary: Binary, audited: Audited, rules: tuple[Rule, ...]) -> Iterator[Finding]:
    """Report every wrong word that one of the rules is about, and memory that is another kernel's."""
    path = str(binary.path)
    if audited.mismatch and MISMATCH in rules:
        start = binary.symbols.find("_stext")
        hit = Hit(start.vaddr if start else 0, audited.mismatch)
        yield MISMATCH.finding(path, binary.symbols.locate(hit.vaddr), hit)
    by_code = {rule.code: rule for rule in rules}
    words = [word for word in audited.words if _CODES.get(word.kind) in by_code]
    places = binary.symbols.locate_all([word.vaddr for word in words]) if words else []
    for word, where in zip(words, places, strict=True):
        yield by_code[_CODES[word.kind]].finding(path, where, word)


def look_at(system: RunningSystem) -> Audit:
    """Judge all words, without findings by rules; of a running kernel several times, if something seems wrong.

    Raises:
        AnotherKernelError: memory is another kernel's.
        InputError: the vmlinux cannot be read or is stripped, or memory cannot be read.

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
    errors: list[PrologueError] = []
    if system.files is not None:
        done, notes, errors = audit_modules(system, facts)
        files += [AuditedFile(path=module.path, name=name, audited=audited, binary=module)
                  for name, module, audited in done]  # fmt: skip
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
        errors=tuple(errors),
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
    words = tuple(
        replace(word, kind="unstable", message=f"{word.message}; it was not so a moment before")
        if word in new and word.kind != "unstable"
        else word
        for word in audited.words
    )
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
