"""Code of BPF by the structs that hold it: programs of ``prog_idr``, trampolines, images of struct_ops, and filters.

``bpf_kallsyms`` has names only, and anybody's: a name counts if the struct that it is in holds the code.
``bpf_prog_aux``, ``bpf_trampoline``, ``bpf_tramp_image``, ``bpf_dispatcher``: include/linux/bpf.h; ``map_idr``:
kernel/bpf/syscall.c; ``bpf_struct_ops_map``: kernel/bpf/bpf_struct_ops.c (5.10-7.3).

No list of programs has the filters of classic BPF, which tasks (seccomp), sockets and PTP have. ``seccomp_filter``:
kernel/seccomp.c; threads: include/linux/sched/signal.h; ``fdtable``: include/linux/fdtable.h; ``sk_filter``:
include/linux/filter.h; ``sock_reuseport``: include/net/sock_reuseport.h; ``ptp_insns``: net/core/ptp_classifier.c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np

from prologue.live.hooks.areas import BPF, OwnedRange
from prologue.live.hooks.bpf_hooks import trampolines
from prologue.live.structs.objects import NotKnownError, Objects

_DISPATCHER: Final = "bpf_dispatcher_xdp"  # the only one (net/core/filter.c)
_STRUCT_OPS: Final = 26  # BPF_MAP_TYPE_STRUCT_OPS (include/uapi/linux/bpf.h)


class BpfName(NamedTuple):
    """An entry of ``bpf_kallsyms``; ``place`` is its struct."""

    start: int
    end: int
    name: str
    place: int
    is_program: bool


def bpf_names(objects: Objects) -> tuple[BpfName, ...]:
    """Read ``bpf_kallsyms``; errors as ``Objects.read``."""
    if not objects.has("bpf_kallsyms"):
        return ()
    return tuple(
        BpfName(
            start=objects.get(place, "bpf_ksym.start"), end=objects.get(place, "bpf_ksym.end"),
            name=objects.text(place + objects.offset("bpf_ksym.name")), place=place,
            is_program=bool(objects.get(place, "bpf_ksym.prog", 1)),
        )
        for place in objects.entries(objects.place("bpf_kallsyms"), "bpf_ksym.lnode")
    )  # fmt: skip


def code_of_bpf(objects: Objects, page: int) -> Iterator[OwnedRange]:
    """Yield all code of BPF that a list leads to; pages have ``page`` bytes. Errors as ``Objects.read``."""
    if not objects.has("prog_idr"):
        return
    for program in objects.array_entries(objects.place("prog_idr") + objects.offset("idr.idr_rt")):
        yield from _code_of_program(objects, program)
    for trampoline in trampolines(objects) if objects.knows("bpf_trampoline.cur_image") else ():
        if image := objects.get(trampoline, "bpf_trampoline.cur_image"):
            yield _code_of_image(objects, image, page)
    has_dispatcher = objects.has(_DISPATCHER) and objects.knows("bpf_dispatcher.image")
    if has_dispatcher and (start := objects.get(objects.place(_DISPATCHER), "bpf_dispatcher.image")):
        yield OwnedRange(start, start + page, BPF, _DISPATCHER, kind="image")
    yield from _code_of_struct_ops(objects, page)


def _code_of_program(objects: Objects, program: int) -> Iterator[OwnedRange]:
    """Yield the code of a program and of its subprograms; the interpreter's programs have none."""
    aux = objects.get(program, "bpf_prog.aux")
    # With those that the verifier adds since 6.8.
    counter = next(name for name in ("real_func_cnt", "func_cnt") if objects.knows(f"bpf_prog_aux.{name}") or
                   name == "func_cnt")  # fmt: skip
    count = objects.count(aux, f"bpf_prog_aux.{counter}")
    functions = objects.get(aux, "bpf_prog_aux.func") if count else 0
    parts = [objects.number(functions + 8 * k) for k in range(count if functions else 0)]
    for part in dict.fromkeys((program, *parts)):
        start, size = objects.get(part, "bpf_prog.bpf_func"), objects.get(part, "bpf_prog.jited_len", 4)
        if size and not (part == program and parts and start == objects.get(parts[0], "bpf_prog.bpf_func")):
            yield OwnedRange(start, start + size, BPF, kind="program")


def code_of_filter(objects: Objects, program: int) -> OwnedRange:
    """Return the code of a filter of classic BPF: empty if the interpreter runs it. Errors as ``Objects.read``."""
    start = objects.get(program, "bpf_prog.bpf_func")
    return OwnedRange(start, start + objects.get(program, "bpf_prog.jited_len", 4), BPF, kind="filter")


def _code_of_image(objects: Objects, image: int, page: int, *, current: bool = True) -> OwnedRange:
    """Return the code of a trampoline's image: a page until 6.8."""
    start = objects.get(image, "bpf_tramp_image.image")
    size = objects.get(image, "bpf_tramp_image.size", 4) if objects.knows("bpf_tramp_image.size") else page
    return OwnedRange(start, start + size, BPF, kind="trampoline", current=current)


def _code_of_struct_ops(objects: Objects, page: int) -> Iterator[OwnedRange]:
    """Yield pages with trampolines of struct_ops: several since 6.9, one before."""
    if not objects.has("map_idr") or not objects.knows("bpf_struct_ops_map.map"):
        return
    for entry in objects.array_entries(objects.place("map_idr") + objects.offset("idr.idr_rt")):
        if objects.get(entry, "bpf_map.map_type", 4) != _STRUCT_OPS:
            continue
        place = entry - objects.offset("bpf_struct_ops_map.map")
        if objects.knows("bpf_struct_ops_map.image_pages"):
            count = objects.count(place, "bpf_struct_ops_map.image_pages_cnt")
            pages = place + objects.offset("bpf_struct_ops_map.image_pages")
            starts = [objects.number(pages + 8 * k) for k in range(count)]
        else:
            starts = [objects.get(place, "bpf_struct_ops_map.image")]
        yield from (OwnedRange(start, start + page, BPF, "struct_ops", kind="image") for start in starts if start)


def code_in_change(objects: Objects, name: BpfName, page: int) -> OwnedRange | None:
    """Return the code that a name's own struct holds, although no list has that; None if it is in no such struct.

    A program is named before it is in ``prog_idr``, and for a moment after it left that; the image of a trampoline
    stays until no task runs in it (``bpf_prog_load``, ``__bpf_prog_put``, ``bpf_tramp_image_put``).
    """
    try:
        if name.is_program:
            for member in ("ksym", "ksym_prefix"):
                if not objects.knows(path := f"bpf_prog_aux.{member}"):
                    continue
                aux = name.place - objects.offset(path)
                program = objects.get(aux, "bpf_prog_aux.prog")
                if objects.get(program, "bpf_prog.aux") == aux:
                    return OwnedRange(name.start, name.end, BPF, name.name, kind="program", current=False)
        elif objects.knows("bpf_tramp_image.ksym"):
            image = name.place - objects.offset("bpf_tramp_image.ksym")
            if objects.get(image, "bpf_tramp_image.image") == name.start:
                return _code_of_image(objects, image, page, current=False)._replace(name=name.name)
    except NotKnownError:  # what would be the struct leads nowhere
        return None
    return None


def filters(objects: Objects, on_error: Callable[[NotKnownError], None]) -> Iterator[int]:
    """Yield every ``struct bpf_prog`` of a filter, some several times.

    ``on_error`` is called for each task that cannot be followed, and may raise: while a kernel runs, tasks come and go.
    """
    if objects.has("ptp_insns"):
        yield objects.variable("ptp_insns")
    tables = set[int]()
    for task in _tasks(objects, on_error):
        try:
            if objects.knows("task_struct.seccomp.filter"):  # it has none without CONFIG_SECCOMP_FILTER
                for place in objects.chain(objects.get(task, "task_struct.seccomp.filter"), "seccomp_filter.prev"):
                    yield objects.get(place, "seccomp_filter.prog")
            if (table := objects.get(task, "task_struct.files")) not in tables:
                tables.add(table)
                yield from _of_files(objects, table) if table else ()
        except NotKnownError as error:
            on_error(error)


def _tasks(objects: Objects, on_error: Callable[[NotKnownError], None]) -> Iterator[int]:
    """Yield every thread."""
    first = objects.place("init_task")
    head = first + objects.offset("task_struct.tasks")
    try:
        for leader in (first, *objects.entries(head, "task_struct.tasks")):
            signal = objects.get(leader, "task_struct.signal")
            threads = signal + objects.offset("signal_struct.thread_head")
            yield from objects.entries(threads, "task_struct.thread_node")
    except NotKnownError as error:
        on_error(error)


def _of_files(objects: Objects, table: int) -> Iterator[int]:
    """Yield the filters of all sockets that are open in a ``files_struct``."""
    of_sockets = objects.place("socket_file_ops")
    fdtable = objects.get(table, "files_struct.fdt")
    count = objects.count(fdtable, "fdtable.max_fds")
    files = np.frombuffer(objects.read(objects.get(fdtable, "fdtable.fd"), 8 * count), "<u8")
    for file in np.unique(files[files != 0]).tolist():
        if objects.get(file, "file.f_op") != of_sockets:
            continue
        socket = objects.get(file, "file.private_data")
        sock = objects.get(socket, "socket.sk") if socket else 0
        for path, program in (("sk_filter", "sk_filter.prog"), ("sk_reuseport_cb", "sock_reuseport.prog")):
            if sock and (place := objects.get(sock, f"sock.{path}")):
                yield objects.get(place, program)
