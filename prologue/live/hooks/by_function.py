"""Listeners by function, in the order in which the kernel calls them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from prologue.live.hooks.listener import STOPPED, Listener, ListenerKind

# At a second slot ftrace_caller runs the callbacks of every ftrace_ops, and then the direct call
# (arch/arm64/kernel/entry-ftrace.S, 6.4-7.3); the programs of a trampoline run in it.
_AT_ENTRY: Final[dict[ListenerKind, int]] = {
    "ftrace_ops": 0, "fprobe": 1, "function graph": 2, "livepatch": 3, "direct call": 4, "BPF program": 5,
}  # fmt: skip
# The function returns to the trampoline, which it was called by; then to the function graph, which ftrace_caller put
# before the caller; last to the kretprobe, which was there first.
_AFTER_ENTRY: Final = {"fmod_ret": 6}
_AT_RETURN: Final = {"fexit": 0, "kretprobe": 3}
_EXIT, _KRETPROBE = 1, 2
_BEFORE, _ENTRY, _INSIDE, _RETURN = range(4)
_SLOTS: Final = 16  # bytes from a function's first that its prologue may take: BTI, two slots
_OFF: Final = frozenset({"GONE", "DISABLED", STOPPED})  # flags of one that nothing calls; a livepatch may be, still


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

    Those that listen everywhere are in no group, nor are those that are off. A direct ftrace_ops is left out: its
    direct call is there.
    """
    by_start: dict[int, list[tuple[tuple[int, int, int, int], Called]]] = {}
    for number, listener in enumerate(listeners):
        if "DIRECT" in listener.flags or is_off(listener):
            continue
        for k, place in enumerate(listener.functions or ()):
            start = start_of[place]
            phase, rank, offset = _phase(listener, place - start)
            turn = listener.turns[k] if listener.turns else number
            # A kretprobe that was reached later takes the place of the caller before the others do.
            turn = -turn if listener.kind == "kretprobe" else turn
            key = (phase, offset if phase == _INSIDE else 0, rank, turn)
            called = Called(listener, None if phase == _RETURN else offset)
            by_start.setdefault(start, []).append((key, called))
    return tuple(
        CalledFunction(start, tuple(called for _, called in sorted(group, key=lambda pair: pair[0])))
        for start, group in sorted(by_start.items())
    )


def is_off(listener: Listener) -> bool:
    """Tell whether nothing calls a listener, although it is registered."""
    return listener.kind != "livepatch" and not _OFF.isdisjoint(listener.flags)


def _phase(listener: Listener, offset: int) -> tuple[int, int, int]:
    """Return when a listener is called, its rank among those of the same moment, and its offset."""
    if listener.kind == "kretprobe":
        return _RETURN, _KRETPROBE, offset
    if listener.way in _AT_RETURN:
        return _RETURN, _AT_RETURN[listener.way], offset
    if listener.is_kprobe:
        return (_INSIDE if offset else _BEFORE), listener.kind == "BPF program", offset
    if listener.callbacks and all(role == "exit" for role, _ in listener.callbacks):
        return _RETURN, _EXIT, offset
    return _ENTRY, _AFTER_ENTRY.get(listener.way, _AT_ENTRY.get(listener.kind, 0)), min(offset, _SLOTS)
