"""Listeners by function: what is called when a function is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from prologue.live.hooks.listener import ARMED, STOPPED, Listener

# Ways of programs, and a kind, that are called where the function returns.
_AT_RETURN: Final = frozenset({"fexit", "kretprobe.multi", "kretprobe"})
# Flags of one that nothing calls, or that does nothing; a livepatch may be called, still.
_OFF: Final = frozenset({"GONE", "DISABLED", "STUB", STOPPED})
EVERYWHERE: Final = 0
"""Where the group of those that listen everywhere begins: at no function."""


class Called(NamedTuple):
    """A listener of one function; ``offset`` in bytes from the function's first, or None where it returns."""

    listener: Listener
    offset: int | None


class CalledFunction(NamedTuple):
    """A function by the run-time address of its first byte, and its listeners: by offset, returns last."""

    start: int
    called: tuple[Called, ...]


def functions_of(listeners: Iterable[Listener], start_of: dict[int, int]) -> tuple[CalledFunction, ...]:
    """Group listeners by function; ``start_of`` has the function of each place where one listens.

    Those that listen everywhere are the first group, ``EVERYWHERE``. Those that are off, or whose host is, are in none.
    A direct ftrace_ops is left out where its direct call is.
    """
    listeners = tuple(listeners)
    direct = {place for each in listeners if each.kind == "direct call" for place in each.functions or ()}
    off = {each.at for each in listeners if is_off(each)}
    by_start: dict[int, list[Called]] = {}
    for listener in listeners:
        if is_off(listener):
            continue
        for k, place in enumerate((EVERYWHERE,) if listener.functions is None else listener.functions):
            if (listener.hosts and listener.hosts[k] in off) or ("DIRECT" in listener.flags and place in direct):
                continue
            start = start_of[place] if place else EVERYWHERE
            called = Called(listener, None if _is_at_return(listener) else place - start)
            by_start.setdefault(start, []).append(called)
    for group in by_start.values():
        group.sort(key=lambda called: (called.offset is None, called.offset or 0))
    return tuple(CalledFunction(start, tuple(group)) for start, group in sorted(by_start.items()))


def is_off(listener: Listener) -> bool:
    """Return whether nothing calls a listener, although it is registered."""
    return listener.kind != "livepatch" and ARMED not in listener.flags and not _OFF.isdisjoint(listener.flags)


def _is_at_return(listener: Listener) -> bool:
    return (listener.way or listener.kind) in _AT_RETURN or {role for role, _ in listener.callbacks} == {"exit"}
