"""Listeners by function, in the order in which the kernel calls them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from prologue.live.hooks.listener import Listener, ListenerKind

# At a second slot ftrace_caller runs the callbacks of every ftrace_ops, and then the direct call
# (arch/arm64/kernel/entry-ftrace.S, 6.4-7.3); the programs of a trampoline run in it.
_AT_ENTRY: Final[dict[ListenerKind, int]] = {
    "ftrace_ops": 0, "fprobe": 1, "function graph": 2, "livepatch": 3, "direct call": 4, "BPF program": 5,
}  # fmt: skip
_BEFORE, _ENTRY, _INSIDE, _RETURN = range(4)
_SLOTS: Final = 16  # bytes from a function's first that its prologue may take: BTI, two slots


class Called(NamedTuple):
    """A listener of one function; ``offset`` in bytes from the function's first, or None where it returns."""

    listener: Listener
    offset: int | None


class CalledFunction(NamedTuple):
    """A function by the run-time address of its first byte, and its listeners in order."""

    start: int
    called: tuple[Called, ...]


def functions_of(listeners: Iterable[Listener], start_of: dict[int, int]) -> tuple[CalledFunction, ...]:
    """Group listeners by function; ``start_of`` has the function of each place where one listens.

    Those that listen everywhere are in no group. A direct ftrace_ops is left out: its direct call is there.
    """
    by_start: dict[int, list[tuple[tuple[int, int, int, int], Called]]] = {}
    for number, listener in enumerate(listeners):
        if "DIRECT" in listener.flags:
            continue
        for place in listener.functions or ():
            start = start_of[place]
            phase, offset = _phase(listener, place - start)
            key = (phase, offset if phase == _INSIDE else 0, _AT_ENTRY.get(listener.kind, 0), number)
            called = Called(listener, None if phase == _RETURN else offset)
            by_start.setdefault(start, []).append((key, called))
    return tuple(
        CalledFunction(start, tuple(called for _, called in sorted(group, key=lambda pair: pair[0])))
        for start, group in sorted(by_start.items())
    )


def _phase(listener: Listener, offset: int) -> tuple[int, int]:
    if listener.kind == "kretprobe":
        return _RETURN, offset
    by_kprobe = ("attached", "kprobe") in listener.details
    if listener.kind == "kprobe" or by_kprobe:
        return (_INSIDE, offset) if offset else (_BEFORE, 0)
    if ("attached", "kretprobe") in listener.details:
        return _RETURN, offset
    return _ENTRY, min(offset, _SLOTS)
