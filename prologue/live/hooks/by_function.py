"""Listeners by function, in the order in which the kernel calls them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from prologue.live.hooks.listener import ARMED, STOPPED, Listener, ListenerKind

# At a second slot ftrace_caller runs the callbacks of every ftrace_ops in the order of their list, each with those that
# it calls, and then the direct call (arch/arm64/kernel/entry-ftrace.S, 6.4-7.3); the programs of a trampoline run in
# it. It goes on at the replacement, which a livepatch's callback only chooses.
_AT_ENTRY: Final[dict[ListenerKind, int]] = {
    "ftrace_ops": 0, "fprobe": 0, "function graph": 0, "direct call": 1, "BPF program": 2, "livepatch": 4,
}  # fmt: skip
# The function returns to the trampoline, which it was called by; then to the function graph, which ftrace_caller put
# before the caller; last to the kretprobe, which was there first.
_AT_ENTRY_BY_WAY: Final = {"fmod_ret": 3, "kprobe.multi": _AT_ENTRY["fprobe"]}
_AT_RETURN: Final = {"fexit": 0, "kretprobe.multi": 1, "kretprobe": 2}
_BEFORE, _ENTRY, _INSIDE, _RETURN = range(4)
# Flags of one that nothing calls, or that does nothing; a livepatch may be called, still.
_OFF: Final = frozenset({"GONE", "DISABLED", "STUB", STOPPED})
EVERYWHERE: Final = 0
"""Where the group of those that listen everywhere begins: at no function."""


class Called(NamedTuple):
    """A listener of one function; ``offset`` in bytes from the function's first, or None where it returns."""

    listener: Listener
    offset: int | None


class CalledFunction(NamedTuple):
    """A function by the run-time address of its first byte, and its listeners in order."""

    start: int
    called: tuple[Called, ...]


class _Place(NamedTuple):
    """A listener at one place: bytes from the function's first, and its turn, after those of its hosts."""

    listener: Listener
    offset: int
    turn: tuple[int, ...]


def functions_of(listeners: Iterable[Listener], start_of: dict[int, int]) -> tuple[CalledFunction, ...]:
    """Group listeners by function; ``start_of`` has the function of each place where one listens.

    Those that listen everywhere are the first group, ``EVERYWHERE``. Those that are off, or whose host is, are in none.
    A direct ftrace_ops is left out where its direct call is.
    """
    listeners = tuple(listeners)
    direct = {place for each in listeners if each.kind == "direct call" for place in each.functions or ()}
    by_start: dict[int, list[_Place]] = {}
    turns: dict[tuple[int, int], tuple[int, ...]] = {}  # by address and place; hosts come before what they call
    off = set[int]()
    for number, listener in enumerate(listeners):
        if is_off(listener):
            off.add(listener.at)
            continue
        for k, place in enumerate((EVERYWHERE,) if listener.functions is None else listener.functions):
            host = listener.hosts[k] if listener.hosts else 0
            turn = listener.turns[k] if listener.turns else number
            # A kretprobe that was reached later takes the place of the caller before the others do.
            turn = -turn if listener.kind == "kretprobe" else turn
            if host not in off and not ("DIRECT" in listener.flags and place in direct):
                order = (*turns.get((host, place), turns.get((host, EVERYWHERE), ())), turn)
                turns[listener.at, place] = order
                start = start_of[place] if place else EVERYWHERE
                by_start.setdefault(start, []).append(_Place(listener, place - start, order))
    return tuple(CalledFunction(start, _in_order(group)) for start, group in sorted(by_start.items()))


def is_off(listener: Listener) -> bool:
    """Return whether nothing calls a listener, although it is registered."""
    return listener.kind != "livepatch" and ARMED not in listener.flags and not _OFF.isdisjoint(listener.flags)


def _in_order(group: list[_Place]) -> tuple[Called, ...]:
    """Return the listeners of one function in order; a breakpoint before the call of ftrace (BTI) comes before that."""
    site = max((each.offset for each in group if _phase(each.listener)[0] == _ENTRY), default=0)
    entries = []
    for each in group:
        phase, rank = _phase(each.listener)
        if phase == _INSIDE and (not each.offset or each.offset < site):
            phase = _BEFORE
        key = (phase, each.offset if phase in {_BEFORE, _INSIDE} else 0, rank, each.turn)
        entries.append((key, Called(each.listener, None if phase == _RETURN else each.offset)))
    return tuple(called for _, called in sorted(entries, key=lambda entry: entry[0]))


def _phase(listener: Listener) -> tuple[int, int]:
    """Return when a listener is called, and its rank among those of the same moment."""
    if (way := listener.way or listener.kind) in _AT_RETURN:
        return _RETURN, _AT_RETURN[way]
    if listener.is_kprobe:
        return _INSIDE, 0
    if listener.callbacks and all(role == "exit" for role, _ in listener.callbacks):
        return _RETURN, _AT_RETURN["kretprobe.multi"]
    return _ENTRY, _AT_ENTRY_BY_WAY.get(listener.way, _AT_ENTRY.get(listener.kind, 0))
