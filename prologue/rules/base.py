"""Rules and their findings. Rules return data and never print."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Final, Literal, NamedTuple

from prologue.errors import Location
from prologue.kernel.binary import Binary
from prologue.kernel.kernel import Kernel
from prologue.kernel.load import why_incomparable
from prologue.kernel.module import Module
from prologue.kernel.sites import NO_SITES, Sites

Severity = Literal["fatal", "error", "warn", "info"]
SEVERITIES: tuple[Severity, ...] = ("fatal", "error", "warn", "info")
FAILING: tuple[Severity, ...] = ("fatal", "error")  # what makes a command fail, if nothing stricter was asked for
# What to do about a file that an interrupted run left.
FINISH: Final = "run the same `prologue patch` command again: it finishes the file"
Input = Literal["V", "K", "I", "C", "P", "W"]
INPUTS: dict[Input, str] = {
    "V": "vmlinux",
    "K": "module",
    "I": "flat Image",
    "C": "live text",
    "P": "pair before/after",
    "W": "recorded writes",
}


@dataclass(frozen=True, slots=True)
class Subject:
    """A vmlinux or module to be verified, and what it is compared with."""

    binary: Binary
    before: Binary | None = None  # the file that it was made from
    image: Path | None = None  # the boot file that was made from it
    vmlinux: Kernel | None = None  # the kernel that will load this module
    _: KW_ONLY
    running: bool = False  # its text is that of a running kernel: only rules of live text apply
    codes: frozenset[str] = frozenset()  # of the rules that run: one leaves to another what that one reports

    @property
    def kernel(self) -> Kernel:
        """The binary, for rules that look at a vmlinux only; the engine gives them no modules."""
        if not isinstance(self.binary, Kernel):
            raise TypeError(f"{self.binary.path} is not a vmlinux")
        return self.binary

    @property
    def module(self) -> Module:
        """The binary, for rules that look at modules only."""
        if not isinstance(self.binary, Module):
            raise TypeError(f"{self.binary.path} is not a module")
        return self.binary

    @property
    def linked_before(self) -> Binary | None:
        """The file from before if both may be of one link; PL403 reports that they are not."""
        return None if self.before is None or why_incomparable(self.before, self.binary) else self.before

    @property
    def sites(self) -> Sites:
        """The binary's sites; empty if it has no readable table."""
        return NO_SITES if self.binary.sites is None else self.binary.sites

    @property
    def inputs(self) -> frozenset[Input]:
        """Kinds of input that the subject offers to rules."""
        if self.running:
            return frozenset({"C"})
        kinds: set[Input] = {"V" if isinstance(self.binary, Kernel) else "K"}
        if self.before is not None:
            kinds.add("P")
        if self.image is not None:
            kinds.add("I")
        return frozenset(kinds)


@dataclass(frozen=True, slots=True)
class Hit:
    """A place where a rule fires; words are 32-bit instructions or 64-bit values, depending on the rule.

    ``vaddr`` is 0 if the place is the file as a whole.

    ``severity`` is that of this place, if it is less than the rule's, and ``fix`` its own advice, if it has one.
    """

    vaddr: int
    message: str
    found: tuple[int, ...] = ()
    expected: tuple[int, ...] = ()
    _: KW_ONLY
    severity: Severity | None = None
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule, with all that its documentation page needs.

    ``code`` and ``slug`` are stable: after a release their meaning never changes. ``open_while_unfinished``: a file
    that an interrupted run left may violate the rule, and ``patch`` finishes such a file. Which rules decide writing is
    said in ``engine``.
    """

    code: str
    slug: str
    severity: Severity
    inputs: tuple[Input, ...]
    what: str
    why: str
    example: str
    fix: str
    citation: str
    check: Callable[[Subject], Iterator[Hit]] | None = None  # None: audits, recorded writes or the gate are judged
    fix_of_module: str = ""  # if a module needs another one than ``fix``
    words: tuple[int, ...] = ()  # instructions of the example, which documentation disassembles
    open_while_unfinished: bool = False
    finds_insns: bool = False  # its hits' ``found`` words are instructions, which reports disassemble

    @property
    def release_may_leave_out(self) -> bool:
        """True if a release may do without the rule, or accept what it finds, unless that is fatal.

        So with PL3, which judges text that processing does not write (decision 13).
        """
        return self.code.startswith("PL3")

    def finding(self, path: str, where: Location, hit: Hit, fix: str = "", follows: tuple[str, ...] = ()) -> Finding:
        """Make a report's finding of a hit; ``fix`` is the advice for this file, if it is not the rule's."""
        return Finding(
            code=self.code,
            slug=self.slug,
            severity=hit.severity or self.severity,
            path=path,
            where=where,
            message=hit.message,
            found=hit.found,
            expected=hit.expected,
            fix=hit.fix or fix or self.fix,
            finds_insns=self.finds_insns,
            follows_from=follows,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A hit with its rule and its place."""

    code: str
    slug: str
    severity: Severity
    path: str
    where: Location
    message: str
    found: tuple[int, ...]
    expected: tuple[int, ...]
    fix: str
    finds_insns: bool = False
    follows_from: tuple[str, ...] = ()  # codes of the root causes; none for a root cause itself

    def __str__(self) -> str:
        return f"{self.path}: {self.where}: {self.code} {self.slug}: {self.message}"


Key = tuple[str, int]  # code and address of a finding


class Traced(NamedTuple):
    """A hit with its rule, and the codes of the root causes that it follows from; none for a root."""

    rule: Rule
    hit: Hit
    follows_from: tuple[str, ...] = ()

    @property
    def severity(self) -> Severity:
        """Severity of this hit."""
        return self.hit.severity or self.rule.severity

    @property
    def key(self) -> Key:
        """Fields that stay the same after another damage was mended."""
        return self.rule.code, self.hit.vaddr


def run_hits(subject: Subject, rules: tuple[Rule, ...]) -> list[Traced]:
    """Run the rules, and return all hits in their order."""
    subject = replace(subject, codes=frozenset(rule.code for rule in rules))
    # Two entries of one table may name the same place: report it once.
    return [
        Traced(rule, hit)
        for rule in rules
        if rule.check is not None and not subject.inputs.isdisjoint(rule.inputs)
        for hit in dict.fromkeys(rule.check(subject))
    ]
