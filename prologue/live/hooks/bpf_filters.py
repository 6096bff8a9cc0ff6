"""Filters of classic BPF, which no list of programs has: those of tasks (seccomp) and of sockets, and that of PTP.

``seccomp_filter``: kernel/seccomp.c; threads: include/linux/sched/signal.h; ``fdtable``: include/linux/fdtable.h;
``sk_filter``: include/linux/filter.h; ``sock_reuseport``: include/net/sock_reuseport.h; ``ptp_insns``:
net/core/ptp_classifier.c (5.10-7.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from prologue.live.structs.objects import NotKnownError, NotReadError, Objects

_MOST_FILES: Final = 1 << 20  # of one task: NR_OPEN_DEFAULT of sysctl
_MOST_FILTERS: Final = 1 << 12  # of one task: seccomp takes 32 K of instructions


def filters(objects: Objects, on_error: Callable[[NotKnownError], None]) -> Iterator[int]:
    """Yield every ``struct bpf_prog`` of a filter, some several times.

    ``on_error`` is called for each task that cannot be followed, and may raise: while a kernel runs, tasks come and go.
    """
    if objects.has("ptp_insns"):
        yield objects.variable("ptp_insns")
    tables = set[int]()
    for task in _tasks(objects, on_error):
        try:
            yield from _of_task(objects, task)
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


def _of_task(objects: Objects, task: int) -> Iterator[int]:
    if not objects.knows("task_struct.seccomp.filter"):
        return  # a kernel without CONFIG_SECCOMP_FILTER
    here = objects.get(task, "task_struct.seccomp.filter")
    for _ in range(_MOST_FILTERS):
        if not here:
            return
        yield objects.get(here, "seccomp_filter.prog")
        here = objects.get(here, "seccomp_filter.prev")
    raise NotReadError(f"more than {_MOST_FILTERS:,} seccomp filters of the task at {task:#x}")


def _of_files(objects: Objects, table: int) -> Iterator[int]:
    """Yield the filters of all sockets that are open in a ``files_struct``."""
    of_sockets = objects.place("socket_file_ops")
    fdtable = objects.get(table, "files_struct.fdt")
    count = objects.get(fdtable, "fdtable.max_fds", 4)
    if count > _MOST_FILES:
        raise NotReadError(f"an fdtable of {count:,} files at {fdtable:#x}")
    files = np.frombuffer(objects.read(objects.get(fdtable, "fdtable.fd"), 8 * count), "<u8")
    for file in np.unique(files[files != 0]).tolist():
        if objects.get(file, "file.f_op") != of_sockets:
            continue
        socket = objects.get(file, "file.private_data")
        sock = objects.get(socket, "socket.sk") if socket else 0
        for path, program in (("sk_filter", "sk_filter.prog"), ("sk_reuseport_cb", "sock_reuseport.prog")):
            if sock and (place := objects.get(sock, f"sock.{path}")):
                yield objects.get(place, program)
