"""Switches of the kernel that stop all listeners of a kind: these stay registered, and nothing calls them.

``ftrace_enabled`` (/proc/sys/kernel/ftrace_enabled): kernel/trace/ftrace.c; ``kprobes_all_disarmed``
(/sys/kernel/debug/kprobes/enabled): kernel/kprobes.c (5.10-7.3).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from prologue.live.hooks.listener import STOPPED, Listener
from prologue.live.hooks.probe_hooks import is_armed
from prologue.live.structs.ftrace_lists import ENABLED, read_records
from prologue.live.structs.objects import Objects

_BY_FTRACE: Final = frozenset({
    "ftrace_ops", "direct call", "function graph", "fprobe", "fentry", "fexit", "fmod_ret", "kprobe.multi",
    "kretprobe.multi",
})  # fmt: skip
_BY_KPROBES: Final = frozenset({"kprobe", "kretprobe"})


def mark_stopped(objects: Objects, listeners: tuple[Listener, ...]) -> tuple[Listener, ...]:
    """Give listeners that a switch stops the flag for that; errors as ``Objects.read``."""
    stopped = frozenset[str]()
    # After an error ftrace sets both, and leaves the calls in the text (``ftrace_kill``); so does who only writes the
    # variable, while the kernel itself disables every record (``ftrace_shutdown_sysctl``).
    is_off = _is_off(objects, "ftrace_enabled", 4, 0) and _is_off(objects, "ftrace_disabled", 4, 0)
    if is_off and not (read_records(objects).flags & ENABLED).any():
        stopped |= _BY_FTRACE
    if _is_off(objects, "kprobes_all_disarmed", 1, 1):
        stopped |= _BY_KPROBES
    return tuple(
        replace(listener, flags=(*listener.flags, STOPPED)) if _is_stopped(objects, listener, stopped) else listener
        for listener in listeners
    )


def _is_stopped(objects: Objects, listener: Listener, stopped: frozenset[str]) -> bool:
    """Return whether its kind is stopped. A switch disarms kprobes when it is set: a breakpoint in the text works."""
    kind = listener.way or listener.kind
    if kind not in stopped:
        return False
    return kind not in _BY_KPROBES or not any(is_armed(objects, place) for place in listener.functions or ())


def _is_off(objects: Objects, name: str, size: int, off: int) -> bool:
    return objects.has(name) and objects.variable(name, size) == off
