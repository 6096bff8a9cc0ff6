"""Kprobes and kretprobes, with the events of tracefs and perf that they are for.

``kprobe_table`` and probes that share a place (``aggr_pre_handler``): kernel/kprobes.c; ``struct kretprobe``:
include/linux/kprobes.h; ``struct trace_kprobe``: kernel/trace/trace_kprobe.c (5.10-7.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prologue.live.hooks.listener import Callback, Listener
from prologue.live.hooks.objects import NotKnownError, Objects

_BUCKETS: Final = 64  # KPROBE_TABLE_SIZE
_FLAGS: Final = {0: "GONE", 1: "DISABLED", 3: "FTRACE"}  # KPROBE_FLAG_* (include/linux/kprobes.h)
OURS: Final = "prologue"
"""The beginning of the group of events that ``live record`` sets."""


def kprobe_structs(objects: Objects) -> Iterator[int]:
    """Every ``struct kprobe``; of several at one place each one, and not what holds them together."""
    table = objects.place("kprobe_table")
    together = objects.maybe(lambda: objects.place("aggr_pre_handler"))
    for bucket in range(_BUCKETS):
        for probe in objects.hash_entries(table + 8 * bucket, "kprobe.hlist"):
            if objects.get(probe, "kprobe.pre_handler") == together:
                yield from objects.entries(probe + objects.offset("kprobe.list"), "kprobe.list")
            else:
                yield probe


def read_kprobes(objects: Objects) -> Iterator[Listener]:
    """A listener for each."""
    of_return = objects.maybe(lambda: objects.place("pre_handler_kretprobe"))
    for probe in kprobe_structs(objects):
        returns = objects.get(probe, "kprobe.pre_handler") == of_return
        yield _kretprobe(objects, probe) if returns else _kprobe(objects, probe)


def _kprobe(objects: Objects, probe: int) -> Listener:
    roles = (("handler", "kprobe.pre_handler"), ("after", "kprobe.post_handler"))
    calls = tuple(Callback(role, place) for role, path in roles if (place := objects.get(probe, path)))
    dispatcher = objects.maybe(lambda: objects.place("kprobe_dispatcher"))
    event = ""
    if dispatcher is not None and calls and calls[0].vaddr == dispatcher:
        event = event_name(objects, probe - objects.offset("trace_kprobe.rp.kp"))
    return _listener(objects, "kprobe", probe, calls, event)


def _kretprobe(objects: Objects, probe: int) -> Listener:
    place = probe - objects.offset("kretprobe.kp")
    roles = (("handler", "kretprobe.handler"), ("entry", "kretprobe.entry_handler"))
    calls = tuple(Callback(role, vaddr) for role, path in roles if (vaddr := objects.get(place, path)))
    dispatcher = objects.maybe(lambda: objects.place("kretprobe_dispatcher"))
    event = ""
    if dispatcher is not None and calls and calls[0].vaddr == dispatcher:
        event = event_name(objects, place - objects.offset("trace_kprobe.rp"))
    return _listener(objects, "kretprobe", probe, calls, event)


def _listener(objects: Objects, kind: str, probe: int, calls: tuple[Callback, ...], event: str) -> Listener:
    assert kind in ("kprobe", "kretprobe")  # noqa: S101 - for the type checker
    flags = objects.get(probe, "kprobe.flags", 4)
    return Listener(
        kind="kprobe" if kind == "kprobe" else "kretprobe",
        at=probe,
        name=event,
        callbacks=calls,
        functions=(objects.get(probe, "kprobe.addr"),),
        flags=tuple(word for bit, word in _FLAGS.items() if flags >> bit & 1),
        ours=event.startswith(OURS),
    )


def event_name(objects: Objects, trace_kprobe: int) -> str:
    """GROUP:EVENT of a ``struct trace_kprobe``; empty if types do not say where it is."""
    try:
        event = objects.get(trace_kprobe, "trace_kprobe.tp.event")
        call = event + objects.offset("trace_probe_event.call")
        return call_name(objects, call)
    except NotKnownError:
        return ""


def call_name(objects: Objects, call: int) -> str:
    """GROUP:EVENT of a ``struct trace_event_call`` whose ``name`` is one and not a tracepoint."""
    group = objects.text(objects.get(objects.get(call, "trace_event_call.class"), "trace_event_class.system"))
    return f"{group}:{objects.text(objects.get(call, 'trace_event_call.name'))}"
