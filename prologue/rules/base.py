"""What a rule is and what it finds. Rules return data and never print."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from prologue.errors import Location
from prologue.sites.kernel import Kernel

Severity = Literal["fatal", "error", "warn", "info"]
SEVERITIES: tuple[Severity, ...] = ("fatal", "error", "warn", "info")
Input = Literal["V", "K", "I", "C", "P"]
INPUTS: dict[Input, str] = {
    "V": "vmlinux",
    "K": "module",
    "I": "flat Image",
    "C": "live text",
    "P": "pair before/after",
}


@dataclass(frozen=True, slots=True)
class Subject:
    """What is verified: a vmlinux and, for pairs, the file that it was made from."""

    kernel: Kernel
    before: Kernel | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """One place where a rule fires; words are 32-bit instructions or 64-bit values as the rule says."""

    vaddr: int
    message: str
    found: tuple[int, ...] = ()
    expected: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, with all that its documentation page needs.

    ``code`` and ``slug`` are stable: once released they never change meaning.
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
    check: Callable[[Subject], Iterator[Hit]]


@dataclass(frozen=True, slots=True)
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

    def __str__(self) -> str:
        return f"{self.path}: {self.where}: {self.code} {self.slug}: {self.message}"
