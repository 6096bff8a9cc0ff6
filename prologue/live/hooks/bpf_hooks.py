"""BPF programs, with all places of each: trampolines, kprobes, fprobes, events and raw tracepoints.

Tables of trampolines: kernel/bpf/trampoline.c; ``bpf_trampoline``, ``bpf_raw_tp_link``, ``bpf_prog_aux``:
include/linux/bpf.h; ``prog_array`` of an event: include/linux/trace_events.h; ``__bpf_trace_run`` and
``bpf_kprobe_multi_link``: kernel/trace/bpf_trace.c; ``prog_idr``: kernel/bpf/syscall.c (5.10-7.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from prologue.live.hooks.ftrace_hooks import read_fprobes
from prologue.live.hooks.listener import ATTACHED, UNLISTED, Callback, Listener, Point
from prologue.live.hooks.modules import ListedModule
from prologue.live.hooks.probe_hooks import (
    call_name,
    call_of,
    is_kretprobe,
    kprobe_structs,
    place_of,
    trace_kprobe_of,
)
from prologue.live.hooks.tracepoint_hooks import bpf_probes, tracepoints, used_tracepoints
from prologue.live.structs.objects import NotKnownError, Objects

_KINDS: Final = ("fentry", "fexit", "fmod_ret")  # BPF_TRAMP_FENTRY, ...; kinds after these are of replaced programs
# Tables of trampolines, of 7.2 and later, and of releases before; and a function of every kernel with trampolines.
_TABLES: Final = (
    ("trampoline_key_table", "bpf_trampoline.hlist_key"),
    ("trampoline_table", "bpf_trampoline.hlist"),
)
_HAS_TRAMPOLINES: Final = "bpf_trampoline_get"
# Handlers of the fprobe of a link to many functions; and the way of its program by a handler's role: both in a session.
_OF_MANY: Final = ("kprobe_multi_link_handler", "kprobe_multi_link_exit_handler")
_WAYS: Final = {"entry": "kprobe.multi", "exit": "kretprobe.multi"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A place of a program, by its struct: the way, and the point, or the function and the host there."""

    program: int
    way: str
    function: int = 0
    host: int = 0
    point: Point | None = None


def attachments(objects: Objects, modules: tuple[ListedModule, ...]) -> Iterator[Attachment]:
    """Yield every place of every program; errors as ``Objects.read``."""
    yield from _by_trampolines(objects)
    yield from _by_events(objects, modules)
    yield from _by_tracepoints(objects, modules)
    yield from _by_fprobes(objects)


def trampolines(objects: Objects) -> Iterator[int]:
    """Yield every ``struct bpf_trampoline``; errors as ``Objects.read``."""
    for table, member in _TABLES:
        if objects.has(table):
            for bucket in objects.slots(table):
                yield from objects.hash_entries(bucket, member)
            return
    if objects.has(_HAS_TRAMPOLINES):
        raise NotKnownError(
            f"this vmlinux has no table of trampolines named {' or '.join(name for name, _ in _TABLES)}"
        )


def _by_trampolines(objects: Objects) -> Iterator[Attachment]:
    for trampoline in trampolines(objects):
        function = objects.get(trampoline, "bpf_trampoline.func.addr")
        replacing = "bpf_trampoline.extension_prog"
        if objects.knows(replacing) and (program := objects.get(trampoline, replacing)):
            yield Attachment(program=program, way="freplace", function=function)
        lists = trampoline + objects.offset("bpf_trampoline.progs_hlist")
        for k, way in enumerate(_KINDS):
            for program in _on_list(objects, lists + 8 * k):
                yield Attachment(program=program, way=way, function=function)


def _on_list(objects: Objects, head: int) -> Iterator[int]:
    """Yield programs of a trampoline: it has nodes of links in 7.2 and later, links since 5.19, or programs."""
    if objects.knows("bpf_tramp_node.tramp_hlist"):
        for node in objects.hash_entries(head, "bpf_tramp_node.tramp_hlist"):
            yield objects.get(objects.get(node, "bpf_tramp_node.link"), "bpf_link.prog")
    elif objects.knows("bpf_tramp_link.tramp_hlist"):
        for link in objects.hash_entries(head, "bpf_tramp_link.tramp_hlist"):
            yield objects.get(link, "bpf_tramp_link.link.prog")
    else:
        for aux in objects.hash_entries(head, "bpf_prog_aux.tramp_hlist"):
            yield objects.get(aux, "bpf_prog_aux.prog")


def _by_events(objects: Objects, modules: tuple[ListedModule, ...]) -> Iterator[Attachment]:
    """Yield programs on events: kprobes, also of perf without a name in tracefs, and all others."""
    if not objects.knows("trace_event_call.prog_array"):
        return
    of_kprobes = set[int]()
    for probe, shares in kprobe_structs(objects):
        event = trace_kprobe_of(objects, probe)
        if event is not None:
            call, way = call_of(objects, event), "kretprobe" if is_kretprobe(objects, probe) else "kprobe"
            of_kprobes.add(call)
            function = place_of(objects, probe, shares=shares)
            for program in _of_call(objects, call):
                yield Attachment(program=program, way=way, function=function, host=probe)
    if not objects.has("ftrace_events"):
        return
    known = frozenset(tracepoints(objects, modules))
    for call in objects.entries(objects.place("ftrace_events"), "trace_event_call.list"):
        for program in _of_call(objects, call) if call not in of_kprobes else ():
            point = Point(call, call_name(objects, call, known))
            yield Attachment(program=program, way="event", point=point)


def _by_tracepoints(objects: Objects, modules: tuple[ListedModule, ...]) -> Iterator[Attachment]:
    """Yield programs on raw tracepoints, those with types (``tp_btf``) among them."""
    functions = bpf_probes(objects, modules)
    for tracepoint in used_tracepoints(objects, modules) if functions else ():
        for function, data in tracepoint.probes:
            if function in functions:
                point = Point(tracepoint.place, tracepoint.name)
                to_program = objects.offset("bpf_raw_tp_link.link.prog")  # without a type nothing is guessed
                # A probe's data lead to the link since 6.10, when that got a cookie; before, to the program.
                program = objects.number(data + to_program) if objects.knows("bpf_raw_tp_link.cookie") else data
                yield Attachment(program=program, way="raw tracepoint", point=point)


def _by_fprobes(objects: Objects) -> Iterator[Attachment]:
    """Yield programs on many functions at once (``kprobe.multi``): the link of each has an fprobe of its own."""
    handlers = {objects.place(name) for name in _OF_MANY if objects.has(name)}
    for fprobe in read_fprobes(objects) if handlers else ():
        for role, handler in fprobe.callbacks:
            if handler not in handlers:
                continue
            link = fprobe.at - objects.offset("bpf_kprobe_multi_link.fp")
            program = objects.get(link, "bpf_kprobe_multi_link.link.prog")
            for function in fprobe.functions or ():
                yield Attachment(program=program, way=_WAYS[role], function=function, host=fprobe.at)


def _of_call(objects: Objects, call: int) -> Iterator[int]:
    """Yield programs of a ``struct trace_event_call``."""
    if array := objects.get(call, "trace_event_call.prog_array"):
        for item in objects.terminated(array + objects.offset("bpf_prog_array.items"), "bpf_prog_array_item.prog"):
            yield objects.get(item, "bpf_prog_array_item.prog")


# enum bpf_prog_type (include/uapi/linux/bpf.h: numbers never change), of what the kernel calls by itself.
_TYPES: Final = {
    1: "socket filter", 2: "kprobe", 3: "classifier", 4: "action", 5: "tracepoint", 6: "XDP", 7: "perf event",
    8: "cgroup skb", 9: "cgroup sock", 10: "lwt in", 11: "lwt out", 12: "lwt xmit", 13: "sock ops", 14: "skb",
    15: "cgroup device", 16: "sk_msg", 17: "raw tracepoint", 18: "cgroup sock_addr", 19: "lwt seg6local", 20: "lirc",
    21: "sk_reuseport", 22: "flow dissector", 23: "cgroup sysctl", 24: "raw tracepoint, writable",
    25: "cgroup sockopt", 26: "tracing", 27: "struct_ops", 28: "extension", 29: "LSM", 30: "sk_lookup", 31: "syscall",
    32: "netfilter",
}  # fmt: skip


def read_programs(objects: Objects, modules: tuple[ListedModule, ...]) -> Iterator[Listener]:
    """Yield a listener for each program and way in which it is attached, with the places; one if there is no way."""
    if not objects.has("prog_idr"):
        return
    listed = set(objects.array_entries(objects.place("prog_idr") + objects.offset("idr.idr_rt")))
    attached: dict[int, dict[str, list[Attachment]]] = {}  # by the struct of a program and by the way
    for each in attachments(objects, modules):
        attached.setdefault(each.program, {}).setdefault(each.way, []).append(each)
    # ``dummy_bpf_prog`` replaces one that could not be detached from an event (kernel/bpf/core.c); it is no program.
    hidden = attached.keys() - listed - {objects.maybe_place("dummy_bpf_prog")}
    for place in (*sorted(listed, key=lambda program: _number(objects, program)), *sorted(hidden)):
        for way, places in sorted(attached.get(place, {"": []}).items()):
            yield _listener(objects, place, way, places, () if place in listed else (UNLISTED,))


def _number(objects: Objects, program: int) -> int:
    return objects.get(objects.get(program, "bpf_prog.aux"), "bpf_prog_aux.id", 4)


def _listener(objects: Objects, program: int, way: str, places: list[Attachment], flags: tuple[str, ...]) -> Listener:
    aux, kind = objects.get(program, "bpf_prog.aux"), objects.get(program, "bpf_prog.type", 4)
    functions = sorted((each.function, each.host) for each in places if each.function)
    return Listener(
        kind="BPF program",
        at=program,
        name=objects.text(aux + objects.offset("bpf_prog_aux.name"), 16),
        callbacks=(Callback("program", objects.get(program, "bpf_prog.bpf_func")),),
        functions=tuple(function for function, _ in functions),
        hosts=tuple(host for _, host in functions),
        points=tuple(sorted({each.point for each in places if each.point})),
        flags=flags,
        details=(
            ("id", str(_number(objects, program))),
            ("type", _TYPES.get(kind, f"type {kind}")),
            ("tag", objects.read(program + objects.offset("bpf_prog.tag"), 8).hex()),
            ("loaded", f"{objects.get(aux, 'bpf_prog_aux.load_time') / 1e9:.3f} s after boot"),
            *([(ATTACHED, way)] if way else []),
        ),
    )
