"""Kprobes and kretprobes, with the events of tracefs and perf that they are for.

``kprobe_table`` and probes that share a place (``aggr_pre_handler``): kernel/kprobes.c; ``struct kretprobe``:
include/linux/kprobes.h; ``struct trace_kprobe``: kernel/trace/trace_kprobe.c (5.10-7.3).
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Final, Literal

from prologue.live.audit.breakpoints import KPROBE_BRK, kprobes_on_table
from prologue.live.hooks.listener import ARMED, Callback, Listener
from prologue.live.hooks.tracepoint_hooks import tracepoint_name
from prologue.live.structs.objects import NotKnownError, Objects

_FLAGS: Final = {0: "GONE", 1: "DISABLED", 3: "FTRACE"}  # KPROBE_FLAG_* (include/linux/kprobes.h)
_GONE, _OFF = 1, 0b11  # GONE; it or DISABLED
OURS: Final = "prologue"
"""The beginning of the group of events that ``writes record`` sets."""


def kprobe_structs(objects: Objects) -> Iterator[tuple[int, bool]]:
    """Yield every ``struct kprobe`` (not what holds several together), and whether it shares a place."""
    if not objects.has("kprobe_table") and not objects.has("register_kprobe"):
        return  # a kernel without kprobes
    together = objects.maybe_place("aggr_pre_handler")
    for probe in kprobes_on_table(objects):
        if objects.get(probe, "kprobe.pre_handler") == together:
            for each in objects.entries(probe + objects.offset("kprobe.list"), "kprobe.list"):
                yield each, True
        else:
            yield probe, False


def place_of(objects: Objects, probe: int, *, shares: bool) -> int:
    """Return where a kprobe is; 0 if that went with its module: something else may have the address by now."""
    place, flags = objects.get(probe, "kprobe.addr"), objects.get(probe, "kprobe.flags", 4)
    return 0 if flags & _GONE and (shares or not is_armed(objects, place)) else place


def is_kretprobe(objects: Objects, probe: int) -> bool:
    """Return whether a ``struct kprobe`` is a part of a ``struct kretprobe``."""
    return objects.get(probe, "kprobe.pre_handler") == objects.maybe_place("pre_handler_kretprobe")


def trace_kprobe_of(objects: Objects, probe: int) -> int | None:
    """Return the ``struct trace_kprobe`` of the event that a ``struct kprobe`` is for; None if it is for none."""
    if is_kretprobe(objects, probe):
        place = probe - objects.offset("kretprobe.kp")
        if objects.get(place, "kretprobe.handler") == objects.maybe_place("kretprobe_dispatcher"):
            return place - objects.offset("trace_kprobe.rp")
    elif objects.get(probe, "kprobe.pre_handler") == objects.maybe_place("kprobe_dispatcher"):
        return probe - objects.offset("trace_kprobe.rp.kp")
    return None


def read_kprobes(objects: Objects) -> Iterator[Listener]:
    """Yield a listener for each kprobe and kretprobe."""
    for probe, shares in kprobe_structs(objects):
        if is_kretprobe(objects, probe):
            place = probe - objects.offset("kretprobe.kp")
            roles = (("handler", "kretprobe.handler"), ("entry", "kretprobe.entry_handler"))
            yield _listener(objects, "kretprobe", probe, _calls(objects, place, roles), shares=shares)
        else:
            roles = (("handler", "kprobe.pre_handler"), ("after", "kprobe.post_handler"))
            yield _listener(objects, "kprobe", probe, _calls(objects, probe, roles), shares=shares)


def _calls(objects: Objects, place: int, roles: tuple[tuple[str, str], ...]) -> tuple[Callback, ...]:
    return tuple(Callback(role, vaddr) for role, path in roles if (vaddr := objects.get(place, path)))


def _listener(
    objects: Objects, kind: Literal["kprobe", "kretprobe"], probe: int, calls: tuple[Callback, ...], *, shares: bool
) -> Listener:
    flags, place = objects.get(probe, "kprobe.flags", 4), place_of(objects, probe, shares=shares)
    words = [word for bit, word in _FLAGS.items() if flags >> bit & 1]
    # Only ``aggr_pre_handler`` asks each kprobe whether it is off; one that is alone is called.
    if flags & _OFF and not shares and is_armed(objects, place):
        words.append(ARMED)
    event = event_name(objects, probe)
    return Listener(
        kind=kind,
        at=probe,
        name=event,
        callbacks=calls,
        functions=(place,) if place else (),
        flags=tuple(words),
        ours=event.startswith(OURS),
    )


def is_armed(objects: Objects, place: int) -> bool:
    """Return whether the breakpoint of a kprobe is in the text at a run-time address; False if memory lacks it."""
    try:
        return objects.number(place, 4) == KPROBE_BRK
    except NotKnownError:
        return False


def event_name(objects: Objects, probe: int) -> str:
    """Return GROUP:EVENT of a ``struct kprobe``; empty if it is for no event, or types do not give its name."""
    try:
        place = trace_kprobe_of(objects, probe)
        return "" if place is None else call_name(objects, call_of(objects, place))
    except NotKnownError:
        return ""


def call_of(objects: Objects, trace_kprobe: int) -> int:
    """Return the ``struct trace_event_call`` of a ``struct trace_kprobe``."""
    return objects.get(trace_kprobe, "trace_kprobe.tp.event") + objects.offset("trace_probe_event.call")


def call_name(objects: Objects, call: int, tracepoints: Container[int] = ()) -> str:
    """Return GROUP:EVENT of a ``struct trace_event_call``; ``name`` is in a union with one of ``tracepoints``."""
    group = objects.text(objects.get(objects.get(call, "trace_event_call.class"), "trace_event_class.system"))
    name = objects.get(call, "trace_event_call.name")
    return f"{group}:{tracepoint_name(objects, name) if name in tracepoints else objects.text(name)}"


def misdirected_events(objects: Objects) -> Iterator[tuple[int, str, int]]:
    """Yield kprobe events of tracefs with another handler than events have: place, name, and that handler.

    ``alloc_trace_kprobe`` sets it, and nothing changes it (kernel/trace/trace_kprobe.c, 5.10-7.3).
    """
    names = ("dyn_event_list", "trace_kprobe_ops", "kprobe_dispatcher", "kretprobe_dispatcher")
    if not all(objects.has(name) for name in names) or not objects.knows("trace_kprobe.devent"):
        return
    head, ops, of_entry, of_return = (objects.place(name) for name in names)
    for event in objects.entries(head, "dyn_event.list"):
        if objects.get(event, "dyn_event.ops") != ops:
            continue
        place = event - objects.offset("trace_kprobe.devent")
        returns = objects.get(place, "trace_kprobe.rp.handler")
        handler = returns or objects.get(place, "trace_kprobe.rp.kp.pre_handler")
        if handler != (of_return if returns else of_entry):
            where = objects.get(place, "trace_kprobe.rp.kp.addr")
            yield where or place, call_name(objects, call_of(objects, place)), handler
