"""BPF programs, with all places of each.

``prog_idr``: kernel/bpf/syscall.c; ``bpf_prog``: include/linux/filter.h; ``bpf_prog_aux``: include/linux/bpf.h
(5.10-7.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from prologue.live.hooks.bpf_places import Attachment, attachments
from prologue.live.hooks.listener import ATTACHED, UNLISTED, Callback, Listener
from prologue.live.hooks.modules import ListedModule
from prologue.live.hooks.objects import Objects

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


def read_programs(objects: Objects, modules: tuple[ListedModule, ...]) -> Iterator[Listener]:
    """Yield a listener for each program and way in which it is attached, with the places; one if there is no way."""
    if not objects.has("prog_idr"):
        return
    known, attached = programs(objects), _attached(objects, modules)
    # ``dummy_bpf_prog`` replaces one that could not be detached from an event (kernel/bpf/core.c); it is no program.
    hidden = attached.keys() - known.keys() - {objects.maybe_place("dummy_bpf_prog")}
    others = [_program(objects, place) for place in sorted(hidden)]
    for program in (*sorted(known.values(), key=lambda entry: entry.id), *others):
        for way, places in sorted(attached.get(program.place, {"": []}).items()):
            functions = sorted((each.function, each.turn, each.host) for each in places if each.function)
            yield Listener(
                kind="BPF program",
                at=program.place,
                name=program.name,
                callbacks=(Callback("program", program.code),),
                functions=tuple(function for function, _, _ in functions),
                turns=tuple(turn for _, turn, _ in functions),
                hosts=tuple(host for _, _, host in functions),
                points=tuple(sorted({each.point for each in places if each.point})),
                flags=() if program.place in known else (UNLISTED,),
                details=(
                    ("id", str(program.id)), ("type", program.type), ("tag", program.tag),
                    ("loaded", f"{program.loaded_ns / 1e9:.3f} s after boot"), *([(ATTACHED, way)] if way else []),
                ),
            )  # fmt: skip


def _attached(objects: Objects, modules: tuple[ListedModule, ...]) -> dict[int, dict[str, list[Attachment]]]:
    """Return all places by the struct of a program and by the way."""
    attached: dict[int, dict[str, list[Attachment]]] = {}
    for each in attachments(objects, modules):
        attached.setdefault(each.program, {}).setdefault(each.way, []).append(each)
    return attached
