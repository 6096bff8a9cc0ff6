"""BPF programs, with all places of each.

``prog_idr``: kernel/bpf/syscall.c; ``bpf_prog``: include/linux/filter.h; ``bpf_prog_aux``: include/linux/bpf.h
(5.10-7.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prologue.live.hooks.bpf_places import Attachment, attachments
from prologue.live.hooks.listener import ATTACHED, UNLISTED, Callback, Listener
from prologue.live.hooks.modules import ListedModule
from prologue.live.structs.objects import Objects

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
    functions = sorted((each.function, each.turn, each.host) for each in places if each.function)
    return Listener(
        kind="BPF program",
        at=program,
        name=objects.text(aux + objects.offset("bpf_prog_aux.name"), 16),
        callbacks=(Callback("program", objects.get(program, "bpf_prog.bpf_func")),),
        functions=tuple(function for function, _, _ in functions),
        turns=tuple(turn for _, turn, _ in functions),
        hosts=tuple(host for _, _, host in functions),
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
