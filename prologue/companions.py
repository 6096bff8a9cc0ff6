"""Companions: directories beside the tool that can be taken away, and what each of them brings.

The tool is the rest of the package: it imports no companion, and finds by this table what there is. A companion with
commands has them in ``cli/commands.py``, and one with rules has them in ``rules.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Companion:
    """A directory that can be taken away, with those that need it."""

    package: str
    needs: tuple[str, ...] = ()  # packages of other companions that it imports, and these may need more
    commands: tuple[str, ...] = ()
    rules: str = ""  # the group of its rules
    pages: tuple[str, ...] = ()  # in ``docs``
    documents: tuple[str, ...] = ()  # forms of JSON, in ``docs/schemas``
    public: tuple[tuple[str, tuple[str, ...]], ...] = ()  # its names of ``import prologue``, by module
    extra: str = ""  # the extra of ``pyproject.toml`` that has its libraries
    libraries: tuple[str, ...] = ()  # modules of these without which its commands do not start

    @property
    def name(self) -> str:
        """The name that messages have for it."""
        return self.package.rpartition(".")[2].removeprefix("prologue_")

    @property
    def lacks(self) -> tuple[str, ...]:
        """Packages that are not installed and without which it does not work: itself, or some that it needs."""
        return tuple(package for package in (self.package, *self.needs) if find_spec(package) is None)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of ``import prologue`` that it brings."""
        return tuple(name for _, names in self.public for name in names)

    def load(self, module: str) -> Any:
        """Import one of its modules."""
        return import_module(f"{self.package}.{module}")


_LIVE: Final = ("prologue.perf", "prologue.dwarf", "prologue.live")

COMPANIONS: Final = (
    Companion(package="prologue.perf"),
    Companion(package="prologue.dwarf"),
    Companion(
        package="prologue.live",
        needs=_LIVE[:2],
        commands=("live", "writes"),
        rules="PL5",
        pages=("live", "live-hooks", "live-writes"),
        documents=(
            "capture", "live-audit", "live-capture", "live-hooks", "live-judge", "live-overlay", "live-perf",
            "live-record",
        ),
        public=(("prologue.live.audit.outcome", ("Audit",)), ("prologue.live.library", ("System", "open_system"))),
        extra="live",
    ),
    Companion(
        package="prologue.probe",
        needs=_LIVE,
        commands=("probe", "live probe"),
        pages=("probe",),
        documents=("live-probe", "probe", "probe-lines"),
        public=(("prologue.probe.library", ("judge_probes",)), ("prologue.probe.verdict", ("ProbeVerdict",))),
        extra="live",
    ),
    Companion(
        package="prologue.trace",
        needs=_LIVE,
        commands=("trace",),
        pages=("recordings", "trace"),
        documents=("trace-check", "trace-disasm", "trace-etm", "trace-stats"),
        public=(("prologue.trace.library", ("KernelTrace", "StaleText", "TraceCheck", "open_trace")),),
        extra="reports",
    ),
    Companion(
        package="prologue.protocol",
        commands=("protocol", "transition"),
        documents=("protocol-check", "protocols", "transition"),
    ),
    Companion(
        package="prologue_bench",
        needs=_LIVE,
        commands=("bench", "trace record", "writes boot"),
        pages=("bench", "bench-farm"),
        documents=(
            "bench-boot", "bench-campaign", "bench-compare", "bench-entered", "bench-expect", "bench-figures",
            "bench-link", "bench-links", "bench-record", "bench-samples", "bench-table", "trace-record",
        ),
        extra="bench",
        libraries=("elftools", "matplotlib", "qemu", "rich", "scipy", "tabulate"),
    ),
)  # fmt: skip
"""All of them; each needs only those before it."""


def installed() -> Iterator[Companion]:
    """Yield the companions that can be used."""
    yield from (companion for companion in COMPANIONS if not companion.lacks)


def companion_of(module: str) -> Companion | None:
    """Return the companion that a module is of, if it is of any."""
    parts = f"{module}."
    return next((companion for companion in COMPANIONS if parts.startswith(f"{companion.package}.")), None)


def home_of(name: str) -> str | None:
    """Return the module of a public name that a companion brings, if it is one."""
    homes = (home for companion in COMPANIONS for home in companion.public)
    return next((module for module, names in homes if name in names), None)


def why_absent(*, command: str = "", rule: str = "", page: str = "", document: str = "", name: str = "") -> str:
    """Say which companion brings a command, rule, page, document or public name, and what it lacks; empty if nothing.

    ``command`` is without ``prologue``: ``live probe``.
    """
    for companion in COMPANIONS:
        brings = command in companion.commands or page in companion.pages or document in companion.documents
        brings |= name in companion.names or (companion.rules != "" and rule.startswith(companion.rules))
        if brings and (lacks := companion.lacks):
            return f"it comes with the companion {companion.name}, and this installation lacks {' and '.join(lacks)}"
    return ""
