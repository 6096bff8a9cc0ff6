"""Listeners by way of ftrace: every ftrace_ops, direct calls, users of the function graph, and fprobes.

``struct ftrace_ops``, ``ftrace_hash`` and ``ftrace_func_entry``: include/linux/ftrace.h, kernel/trace/trace.h;
``fgraph_array``: kernel/trace/fgraph.c (6.10-7.3); ``fprobe_table``: kernel/trace/fprobe.c (6.14-7.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prologue.live.hooks.listener import Callback, Listener
from prologue.live.structs.ftrace_lists import direct_targets, read_hash, registered
from prologue.live.structs.objects import Objects

_FPROBE_DISABLED: Final = 1  # FPROBE_FL_DISABLED (include/linux/fprobe.h, 6.1-7.3)
# FTRACE_OPS_FL_* (include/linux/ftrace.h, 5.10-7.3); what is of no interest to a user is left out. So is STUB: only the
# function that goes through the list heeds it (``__ftrace_ops_list_func``), and an ops that is alone is called.
_FLAGS: Final = {
    2: "SAVE_REGS", 12: "IPMODIFY", 13: "PID", 16: "PERMANENT", 17: "DIRECT", 18: "SUBOP",
}  # fmt: skip
# ``ip`` of an entry whose module or init text is gone; the hash still counts it (``clear_mod_from_hash``).
_GONE: Final = frozenset({0})


def read_ops(objects: Objects) -> Iterator[Listener]:
    """Yield a listener for each registered ``ftrace_ops``."""
    for ops in registered(objects):
        yield read_one_ops(objects, ops)


def read_ops_hash(objects: Objects, ops: int) -> tuple[frozenset[int], frozenset[int]]:
    """Return both hashes of an ``ftrace_ops``, which has the functions of the first without those of the second.

    All functions, if the first is empty (``ops_references_ip``, kernel/trace/ftrace.c); errors as ``read_hash``.
    """
    hashes = objects.get(ops, "ftrace_ops.func_hash")
    wanted, unwanted = (objects.get(hashes, f"ftrace_ops_hash.{name}_hash") for name in ("filter", "notrace"))
    return frozenset(read_hash(objects, wanted)), frozenset(read_hash(objects, unwanted))


def read_one_ops(objects: Objects, ops: int) -> Listener:
    """Return what one ``ftrace_ops`` listens to; errors as ``Objects.read``."""
    flags = objects.get(ops, "ftrace_ops.flags")
    callbacks = _after_pid_filter(objects, "callback", ops, "ftrace_ops.func")
    if objects.knows("ftrace_ops.direct_call") and (direct := objects.get(ops, "ftrace_ops.direct_call")):
        callbacks.append(Callback("direct call", direct))
    if trampoline := objects.get(ops, "ftrace_ops.trampoline"):
        callbacks.append(Callback("trampoline", trampoline))
    words = [word for bit, word in _FLAGS.items() if flags >> bit & 1]
    called = {vaddr for role, vaddr in callbacks if role in ("callback", "direct call")}
    wanted, unwanted = read_ops_hash(objects, ops)
    return Listener(
        kind="ftrace_ops",
        at=ops,
        callbacks=tuple(callbacks),
        functions=tuple(sorted(wanted - unwanted - _GONE)) if wanted else None,
        excluded=0 if wanted else len(unwanted - _GONE),
        flags=("STUB", *words) if called == {objects.maybe_place("ftrace_stub")} else tuple(words),
    )


def _after_pid_filter(objects: Objects, role: str, place: int, path: str) -> list[Callback]:
    """Return the function of a struct; if ``set_ftrace_pid`` put a filter in its place, also what that calls.

    ``ftrace_update_pid_func`` (kernel/trace/ftrace.c, 5.10-7.3), ``fgraph_update_pid_func`` (fgraph.c, 6.10-7.3).
    """
    function = objects.get(place, path)
    if function in (objects.maybe_place("ftrace_pid_func"), objects.maybe_place("fgraph_pid_func")):
        saved = objects.get(place, f"{path.partition('.')[0]}.saved_func")
        return [Callback("pid filter", function), Callback(role, saved)]
    return [Callback(role, function)] if function else []


def read_direct_calls(objects: Objects) -> Iterator[Listener]:
    """Yield a listener for each trampoline in ``direct_functions``, with all functions that it is called for."""
    targets: dict[int, list[int]] = {}
    for function, target in direct_targets(objects).items():
        targets.setdefault(target, []).append(function)
    for target, functions in sorted(targets.items()):
        yield Listener(
            kind="direct call", at=target, callbacks=(Callback("trampoline", target),), functions=tuple(functions)
        )


def read_graph(objects: Objects) -> Iterator[Listener]:
    """Yield users of the function graph: slots of ``fgraph_array``, or the two functions of kernels before 6.10."""
    if objects.has("fgraph_array"):
        stub = objects.maybe_place("fgraph_stub")
        for slot in objects.slots("fgraph_array"):
            user = objects.number(slot)
            if not user or user == stub:
                continue
            ops = read_one_ops(objects, user + objects.offset("fgraph_ops.ops"))
            calls = _after_pid_filter(objects, "entry", user, "fgraph_ops.entryfunc")
            if place := objects.get(user, "fgraph_ops.retfunc"):
                calls.append(Callback("return", place))
            yield Listener(
                kind="function graph", at=user, callbacks=tuple(calls), functions=ops.functions, excluded=ops.excluded
            )
    elif objects.has("ftrace_graph_return"):
        yield from _former_graph(objects)


def _former_graph(objects: Objects) -> Iterator[Listener]:
    """Yield the user of the function graph before 6.10, if there is one; its functions are those of ``graph_ops``."""
    entry = objects.variable("ftrace_graph_entry")
    # As soon as another ftrace_ops is registered, used or not (``update_function_graph_func``, kernel/trace/fgraph.c).
    if entry == objects.maybe_place("ftrace_graph_entry_test"):
        entry = objects.variable("__ftrace_graph_entry")
    calls = (Callback("entry", entry), Callback("return", objects.variable("ftrace_graph_return")))
    # Before 6.1 no ftrace_ops had ftrace_stub as its return function.
    stubs = {objects.maybe_place(n) for n in ("ftrace_graph_entry_stub", "ftrace_stub_graph", "ftrace_stub")}
    if any(call.vaddr not in stubs for call in calls):
        ops = read_one_ops(objects, objects.place("graph_ops"))
        yield Listener(
            kind="function graph",
            at=objects.place("ftrace_graph_return"),
            callbacks=calls,
            functions=ops.functions,
            excluded=ops.excluded,
        )


def read_fprobes(objects: Objects) -> Iterator[Listener]:
    """Yield fprobes: in ``fprobe_table`` since 6.14; before, an ``ftrace_ops`` each, with a callback of fprobe's."""
    if objects.has("fprobe_table"):
        for bucket in objects.slots("fprobe_table"):
            for entry in objects.hash_entries(bucket, "fprobe_hlist.hlist"):
                yield _fprobe(objects, objects.get(entry, "fprobe_hlist.fp"), _functions(objects, entry))
        return
    handlers = {objects.maybe_place(n) for n in ("fprobe_handler", "fprobe_kprobe_handler")}
    for ops in registered(objects) if handlers - {None} else ():
        if objects.get(ops, "ftrace_ops.func") in handlers:
            yield _fprobe(objects, ops - objects.offset("fprobe.ops"), read_one_ops(objects, ops).functions)


def _functions(objects: Objects, entry: int) -> tuple[int, ...]:
    """Return the functions of an ``fprobe_hlist``, each once, except those that left with their module."""
    count = objects.count(entry, "fprobe_hlist.size")
    first, each = entry + objects.offset("fprobe_hlist.array"), objects.size("fprobe_hlist_node")
    nodes = (node for node in range(first, first + each * count, each) if objects.get(node, "fprobe_hlist_node.fp"))
    return tuple(sorted({objects.get(node, "fprobe_hlist_node.addr") for node in nodes}))


def _fprobe(objects: Objects, place: int, functions: tuple[int, ...] | None) -> Listener:
    parts = (("entry", "fprobe.entry_handler"), ("exit", "fprobe.exit_handler"))
    calls = [Callback(role, vaddr) for role, path in parts if (vaddr := objects.get(place, path))]
    return Listener(
        kind="fprobe",
        at=place,
        callbacks=tuple(calls),
        functions=functions,
        flags=("DISABLED",) if objects.get(place, "fprobe.flags", 4) & _FPROBE_DISABLED else (),
    )
