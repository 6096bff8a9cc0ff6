"""A listener: code that a running kernel calls at a hook, such as a callback, a handler or a BPF program. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

ListenerKind = Literal[
    "direct call", "ftrace_ops", "function graph", "fprobe", "kprobe", "kretprobe", "BPF program", "livepatch",
    "tracepoint", "tracer",
]  # fmt: skip
"""What kinds of listeners there are."""
UNLISTED: Final = "NOT LISTED"
"""The flag of one that is in use, and not on the list that its users see."""
STOPPED: Final = "STOPPED"
"""The flag of one that nothing calls, since a switch of the kernel is off."""
ARMED: Final = "ARMED"
"""The flag of a kprobe that is off by its flags, and whose breakpoint is in the text."""
ATTACHED: Final = "attached"
"""The detail that says how a BPF program is attached."""


class Callback(NamedTuple):
    """Code that is called: its run-time address, and what it is to the listener ("handler", "replacement", ...)."""

    role: str
    vaddr: int


class Point(NamedTuple):
    """A place that is no code: the run-time address of the struct of a tracepoint or event, and its name."""

    vaddr: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A listener, at run-time addresses.

    ``name`` is what the kernel or its user calls it: an event, a program, a patch. ``at`` is where its struct is.
    ``functions`` are the places where it listens, ascending; None for every function that ftrace may trace, except
    those of ``excluded``; ``points`` are places of other kinds. ``hosts`` say for each function which kprobe, kretprobe
    or fprobe calls a BPF program there, by the address of its struct; 0 for none. ``flags`` are words.
    """

    kind: ListenerKind
    at: int
    name: str = ""
    callbacks: tuple[Callback, ...] = ()
    functions: tuple[int, ...] | None = ()
    hosts: tuple[int, ...] = ()
    excluded: int = 0
    points: tuple[Point, ...] = ()
    flags: tuple[str, ...] = ()
    details: tuple[tuple[str, str], ...] = ()
    ours: bool = False

    @property
    def way(self) -> str:
        """Way in which a BPF program is attached; empty for another listener, or one that is attached nowhere."""
        return dict(self.details).get(ATTACHED, "")

    @property
    def is_kprobe(self) -> bool:
        """True if a breakpoint calls it: a kprobe, or a BPF program on one."""
        return self.kind == "kprobe" or self.way == "kprobe"
