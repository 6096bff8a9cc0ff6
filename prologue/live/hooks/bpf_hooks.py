"""BPF programs, and where each is attached: trampolines and events.

``prog_idr``: kernel/bpf/syscall.c; tables of trampolines: kernel/bpf/trampoline.c; ``bpf_ksym``,
``bpf_trampoline`` and ``bpf_prog_aux``: include/linux/bpf.h; ``prog_array`` of an event: include/linux/trace_events.h
(5.10-7.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from prologue.live.hooks.listener import ATTACHED, UNLISTED, Callback, Listener
from prologue.live.hooks.objects import NotKnownError, NotReadError, Objects
from prologue.live.hooks.probe_hooks import call_of, is_kretprobe, kprobe_structs, trace_kprobe_of

_KINDS: Final = ("fentry", "fexit", "fmod_ret")  # BPF_TRAMP_FENTRY, ...; kinds after these are of replaced programs
# Tables of trampolines, of 7.2 and later, and of releases before; and a function of every kernel with trampolines.
_TABLES: Final = (
    ("trampoline_key_table", "bpf_trampoline.hlist_key"),
    ("trampoline_table", "bpf_trampoline.hlist"),
)
_HAS_TRAMPOLINES: Final = "bpf_trampoline_get"
_MOST_PROGRAMS: Final = 64  # BPF_TRACE_MAX_PROGS
# enum bpf_prog_type (include/uapi/linux/bpf.h: numbers never change), of what the kernel calls by itself.
_TYPES: Final = {
    1: "socket filter", 2: "kprobe", 3: "classifier", 4: "action", 5: "tracepoint", 6: "XDP", 7: "perf event",
    8: "cgroup skb", 9: "cgroup sock", 10: "lwt in", 11: "lwt out", 12: "lwt xmit", 13: "sock ops", 14: "skb",
    15: "cgroup device", 16: "sk_msg", 17: "raw tracepoint", 18: "cgroup sock_addr", 19: "lwt seg6local", 20: "lirc",
    21: "sk_reuseport", 22: "flow dissector", 23: "cgroup sysctl", 24: "raw tracepoint, writable",
    25: "cgroup sockopt", 26: "tracing", 27: "struct_ops", 28: "extension", 29: "LSM", 30: "sk_lookup", 31: "syscall",
    32: "netfilter",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class BpfProgram:
    """A loaded program: run-time addresses of its ``struct bpf_prog`` and of its code."""

    place: int
    code: int
    id: int
    name: str
    tag: str
    type: str
    loaded_ns: int  # since boot


def programs(objects: Objects) -> dict[int, BpfProgram]:
    """Return every program by the address of its struct; errors as ``Objects.read``."""
    root = objects.place("prog_idr") + objects.offset("idr.idr_rt")
    return {place: _program(objects, place) for place in objects.array_entries(root)}


def _program(objects: Objects, place: int) -> BpfProgram:
    aux, number = objects.get(place, "bpf_prog.aux"), objects.get(place, "bpf_prog.type", 4)
    return BpfProgram(
        place=place,
        code=objects.get(place, "bpf_prog.bpf_func"),
        id=objects.get(aux, "bpf_prog_aux.id", 4),
        name=objects.text(aux + objects.offset("bpf_prog_aux.name"), 16),
        tag=objects.read(place + objects.offset("bpf_prog.tag"), 8).hex(),
        type=_TYPES.get(number, f"type {number}"),
        loaded_ns=objects.get(aux, "bpf_prog_aux.load_time"),
    )


class Attachment(NamedTuple):
    """A place of a program, by its struct: how it is attached, to which function (0 for none), and in which turn."""

    program: int
    way: str
    function: int
    turn: int


def read_programs(objects: Objects) -> Iterator[Listener]:
    """Yield a listener for each program and way in which it is attached, with the functions; one if there is no way."""
    if not objects.has("prog_idr"):
        return
    known, attached = programs(objects), _attached(objects)
    # What takes the place of a program that could not be taken off an event is none (kernel/bpf/core.c).
    hidden = attached.keys() - known.keys() - {objects.maybe_place("dummy_bpf_prog")}
    others = [_program(objects, place) for place in sorted(hidden)]
    for program in (*sorted(known.values(), key=lambda entry: entry.id), *others):
        for way, places in sorted(attached.get(program.place, {"": {}}).items()):
            yield Listener(
                kind="BPF program",
                at=program.place,
                name=program.name,
                callbacks=(Callback("program", program.code),),
                functions=tuple(sorted(places)),
                turns=tuple(places[function] for function in sorted(places)),
                flags=() if program.place in known else (UNLISTED,),
                details=(
                    ("id", str(program.id)), ("type", program.type), ("tag", program.tag),
                    ("loaded", f"{program.loaded_ns / 1e9:.3f} s after boot"), *([(ATTACHED, way)] if way else []),
                ),
            )  # fmt: skip


def _attached(objects: Objects) -> dict[int, dict[str, dict[int, int]]]:
    """Return by the struct of a program and by the way: the turn at each function."""
    attached: dict[int, dict[str, dict[int, int]]] = {}
    for each in (*_by_trampolines(objects), *_by_events(objects)):
        functions = attached.setdefault(each.program, {}).setdefault(each.way, {})
        if each.function:
            functions[each.function] = each.turn
    return attached


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
        lists = trampoline + objects.offset("bpf_trampoline.progs_hlist")
        for k, way in enumerate(_KINDS):
            for turn, program in enumerate(_on_list(objects, lists + 8 * k)):
                yield Attachment(program, way, function, turn)


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


def _by_events(objects: Objects) -> Iterator[Attachment]:
    """Yield programs on events: kprobes, those of perf that have no name in tracefs among them, and all others."""
    if not objects.knows("trace_event_call.prog_array"):
        return
    of_kprobes = set[int]()
    for probe in kprobe_structs(objects):
        event = trace_kprobe_of(objects, probe)
        if event is not None:
            call, way = call_of(objects, event), "kretprobe" if is_kretprobe(objects, probe) else "kprobe"
            of_kprobes.add(call)
            for turn, program in enumerate(_of_call(objects, call)):
                yield Attachment(program, way, objects.get(probe, "kprobe.addr"), turn)
    if not objects.has("ftrace_events"):
        return
    for call in objects.entries(objects.place("ftrace_events"), "trace_event_call.list"):
        for program in _of_call(objects, call) if call not in of_kprobes else ():
            yield Attachment(program, "event", 0, 0)


def _of_call(objects: Objects, call: int) -> Iterator[int]:
    """Yield programs of a ``struct trace_event_call``."""
    array = objects.get(call, "trace_event_call.prog_array")
    if not array:
        return
    items, each = array + objects.offset("bpf_prog_array.items"), objects.size("bpf_prog_array_item")
    for k in range(_MOST_PROGRAMS):
        program = objects.get(items + each * k, "bpf_prog_array_item.prog")
        if not program:
            return
        yield program
    raise NotReadError(f"more than {_MOST_PROGRAMS} BPF programs of one event at {array:#x}")
