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
                kind="function graph", at=user, callbacks=tuple(calls), functions=ops.functions,
                hosts=_at_each(_caller_of_graph(objects), ops.functions), excluded=ops.excluded,
            )  # fmt: skip
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
            hosts=_at_each(_caller_of_graph(objects), ops.functions),
            excluded=ops.excluded,
        )


def _caller_of_graph(objects: Objects) -> int:
    """Return the ``ftrace_ops`` that calls users of the function graph, or 0.

    In 5.10 its function is a stub: ``ftrace_caller`` calls the graph by itself, after every ``ftrace_ops``.
    """
    ops = objects.place("graph_ops")
    return 0 if "STUB" in read_one_ops(objects, ops).flags else ops


def _at_each(host: int, functions: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the host of a listener that has the same one everywhere, for each function."""
    return (host,) * (1 if functions is None else len(functions))


def read_fprobes(objects: Objects) -> Iterator[Listener]:
    """Yield fprobes: in ``fprobe_table`` since 6.14; before, an ``ftrace_ops`` each, with a callback of fprobe's.

    Of those in the table, a user of the function graph calls each; in 7.2 and 7.3, if it has no handler at the return,
    an ``ftrace_ops`` does (``fprobe_is_ftrace``, kernel/trace/fprobe.c).
    """
    if objects.has("fprobe_table"):
        graph = objects.place("fprobe_graph_ops")
        ops = objects.place("fprobe_ftrace_ops") if objects.has("fprobe_ftrace_ops") else graph
        for bucket in objects.slots("fprobe_table"):
            for entry in objects.hash_entries(bucket, "fprobe_hlist.hlist"):
                place = objects.get(entry, "fprobe_hlist.fp")
                host = graph if objects.get(place, "fprobe.exit_handler") else ops
                yield _fprobe(objects, place, dict(_functions(objects, entry)), host)
        return
    handlers = {objects.maybe_place(n) for n in ("fprobe_handler", "fprobe_kprobe_handler")}
    for ops in registered(objects) if handlers - {None} else ():
        if objects.get(ops, "ftrace_ops.func") in handlers:
            yield _fprobe(objects, ops - objects.offset("fprobe.ops"), read_one_ops(objects, ops).functions, ops)


def _functions(objects: Objects, entry: int) -> Iterator[tuple[int, int]]:
    """Yield the functions of an ``fprobe_hlist``, and its turn at each; those that left with their module have none."""
    count = objects.count(entry, "fprobe_hlist.size")
    first, each = entry + objects.offset("fprobe_hlist.array"), objects.size("fprobe_hlist_node")
    for node in range(first, first + each * count, each):
        if objects.get(node, "fprobe_hlist_node.fp"):
            # Those that were added to a function before are called afterwards (``rhltable_insert``).
            older = objects.get(node + objects.offset("fprobe_hlist_node.hlist"), "rhlist_head.next")
            turn = -sum(1 for _ in objects.chain(older, "rhlist_head.next"))
            yield objects.get(node, "fprobe_hlist_node.addr"), turn


def _fprobe(objects: Objects, place: int, functions: tuple[int, ...] | dict[int, int] | None, host: int) -> Listener:
    parts = (("entry", "fprobe.entry_handler"), ("exit", "fprobe.exit_handler"))
    calls = [Callback(role, vaddr) for role, path in parts if (vaddr := objects.get(place, path))]
    places = None if functions is None else tuple(sorted(functions))
    return Listener(
        kind="fprobe",
        at=place,
        callbacks=tuple(calls),
        functions=places,
        flags=("DISABLED",) if objects.get(place, "fprobe.flags", 4) & _FPROBE_DISABLED else (),
        hosts=_at_each(host, places),
        turns=tuple(functions[function] for function in sorted(functions)) if isinstance(functions, dict) else (),
    )
