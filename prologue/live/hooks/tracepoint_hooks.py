"""Tracepoints with probes, and which functions call the BPF programs of a raw tracepoint.

``struct tracepoint`` and ``bpf_raw_event_map``: include/linux/tracepoint-defs.h; ``__bpf_raw_tp_map``:
include/trace/bpf_probe.h and, of modules, ``bpf_raw_events`` (5.10-7.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from prologue.live.hooks.listener import Callback, Listener
from prologue.live.hooks.modules import ListedModule
from prologue.live.structs.objects import Objects

# A function of every kernel with CONFIG_BPF_EVENTS, which alone has raw tracepoints.
_RUNS_PROGRAMS: Final = "bpf_trace_run1"


class Tracepoint(NamedTuple):
    """A tracepoint that has probes, by the run-time address of its struct.

    Probes are functions, called in this order, and what each gets as its first argument.
    """

    place: int
    name: str
    probes: tuple[tuple[int, int], ...]


def read_tracepoints(objects: Objects, modules: tuple[ListedModule, ...]) -> Iterator[Listener]:
    """Yield a listener for each tracepoint that has probes, with all of them."""
    for tracepoint in used_tracepoints(objects, modules):
        calls = tuple(Callback("probe", function) for function, _ in tracepoint.probes)
        yield Listener(kind="tracepoint", at=tracepoint.place, name=tracepoint.name, callbacks=calls)


def used_tracepoints(objects: Objects, modules: tuple[ListedModule, ...]) -> Iterator[Tracepoint]:
    """Yield every tracepoint that has probes; errors as ``Objects.read``."""
    for place in tracepoints(objects, modules):
        if first := objects.get(place, "tracepoint.funcs"):
            probes = (
                (objects.get(each, "tracepoint_func.func"), objects.get(each, "tracepoint_func.data"))
                for each in objects.terminated(first, "tracepoint_func.func")
            )
            yield Tracepoint(place, tracepoint_name(objects, place), tuple(probes))


def tracepoint_name(objects: Objects, place: int) -> str:
    """Return the name of a ``struct tracepoint``."""
    return objects.text(objects.get(place, "tracepoint.name"))


def tracepoints(objects: Objects, modules: tuple[ListedModule, ...]) -> Iterator[int]:
    """Yield the addresses of all tracepoints: the kernel's, by 32-bit pointers relative to themselves, and modules'."""
    start, stop = objects.place("__start___tracepoints_ptrs"), objects.place("__stop___tracepoints_ptrs")
    yield from _relative(objects, start, stop - start)
    for module in modules:
        if count := objects.count(module.place, "module.num_tracepoints"):
            yield from _relative(objects, objects.get(module.place, "module.tracepoints_ptrs"), 4 * count)


def _relative(objects: Objects, start: int, size: int) -> Iterator[int]:
    for k, distance in enumerate(np.frombuffer(objects.read(start, size), "<i4").tolist()):
        yield start + 4 * k + distance


def bpf_probes(objects: Objects, modules: tuple[ListedModule, ...]) -> frozenset[int]:
    """Return every probe that runs a BPF program: its data lead to that. There are none without CONFIG_BPF_EVENTS."""
    if not objects.has(_RUNS_PROGRAMS):
        return frozenset()
    each, start = objects.size("bpf_raw_event_map"), objects.place("__start__bpf_raw_tp")
    functions = set(_functions(objects, start, (objects.place("__stop__bpf_raw_tp") - start) // each))
    for module in modules:
        if count := objects.count(module.place, "module.num_bpf_raw_events"):
            functions.update(_functions(objects, objects.get(module.place, "module.bpf_raw_events"), count))
    return frozenset(functions)


def _functions(objects: Objects, start: int, count: int) -> Iterator[int]:
    each, to_function = objects.size("bpf_raw_event_map"), objects.offset("bpf_raw_event_map.bpf_func")
    data = objects.read(start, each * count) if count else b""
    for k in range(count):
        yield int.from_bytes(data[each * k + to_function :][:8], "little")
