"""Everything that is attached to one kernel, and what could not be read of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from prologue.errors import how_to_install
from prologue.live.audit.layouts import Layouts, layouts_of
from prologue.live.audit.locks import is_held
from prologue.live.audit.variables import Variables
from prologue.live.hooks.bpf_hooks import read_programs
from prologue.live.hooks.ftrace_hooks import read_direct_calls, read_fprobes, read_graph, read_ops
from prologue.live.hooks.listener import Listener
from prologue.live.hooks.module_views import find_unlisted
from prologue.live.hooks.modules import ListedModule
from prologue.live.hooks.objects import NotKnown, NotKnownError, Objects, types_of
from prologue.live.hooks.other_hooks import read_livepatches, read_tracers
from prologue.live.hooks.owners import Owners, owners_of
from prologue.live.hooks.probe_hooks import read_kprobes
from prologue.live.hooks.switches import mark_stopped
from prologue.live.hooks.tracepoint_hooks import read_tracepoints
from prologue.live.memory.capture import Capture
from prologue.live.system.running_kernel import RunningKernel
from prologue.releases import version_of

ReadListeners = Callable[[Objects, tuple[ListedModule, ...]], Iterator[Listener]]

_READERS: Final[tuple[tuple[str, ReadListeners], ...]] = (
    ("ftrace_ops", lambda objects, _: read_ops(objects)),
    ("direct calls", lambda objects, _: read_direct_calls(objects)),
    ("function graph", lambda objects, _: read_graph(objects)),
    ("fprobes", lambda objects, _: read_fprobes(objects)),
    ("kprobes", lambda objects, _: read_kprobes(objects)),
    ("BPF programs", read_programs),
    ("livepatches", lambda objects, _: read_livepatches(objects)),
    ("tracepoints", read_tracepoints),
    ("tracers", lambda objects, _: read_tracers(objects)),
)

# Mutexes, and the lists that they protect (kernel/trace/ftrace.c, kernel/kprobes.c, kernel/tracepoint.c,
# kernel/livepatch/core.c, 5.10-7.3).
_LOCKS: Final = {
    "ftrace_lock": "ftrace_ops", "kprobe_mutex": "kprobes", "tracepoints_mutex": "tracepoints",
    "klp_mutex": "livepatches",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Listeners of one kernel.

    ``not_known`` says what could not be read, and why; ``types``, what says where structs have their members.
    """

    source: str
    release: str
    listeners: tuple[Listener, ...]
    owners: Owners
    unlisted: tuple[ListedModule, ...]
    objects: Objects
    kernel: RunningKernel
    not_known: tuple[NotKnown, ...]
    types: str


def layouts_for(kernel: RunningKernel) -> Layouts:
    """Return the layouts of a kernel's structs."""
    version = kernel.version or version_of(kernel.memory.info.release)
    return layouts_of(kernel.image, version, realtime=kernel.is_realtime)


def objects_of(kernel: RunningKernel) -> Objects:
    """Return the reader of a kernel's structs."""
    variables = Variables(kernel.memory, kernel.symbols, kernel.slide, layouts_for(kernel), kernel.image)
    return Objects(variables, types_of(kernel))


def take_inventory(kernel: RunningKernel, objects: Objects | None = None) -> Inventory:
    """Read every list of listeners, with another reader of structs if ``objects`` is given."""
    objects = objects or objects_of(kernel)
    not_known: list[NotKnown] = []
    if not objects.has_types:
        return _nothing(kernel, objects)
    in_change = [*_in_change(kernel, objects)]
    try:
        owners = owners_of(kernel, objects)
    except NotKnownError as error:
        not_known.append(NotKnown.of("modules", error))
        owners = Owners(kernel, objects, None)
    unlisted: tuple[ListedModule, ...] = ()
    try:
        unlisted = find_unlisted(objects, owners.modules) if owners.complete else ()
    except NotKnownError as error:
        not_known.append(NotKnown.of("modules that are not listed", error))
    listeners: tuple[Listener, ...] = ()
    for what, read in _READERS:
        try:
            listeners += tuple(read(objects, owners.modules))
        except NotKnownError as error:
            not_known.append(NotKnown.of(what, error))
    try:
        listeners = mark_stopped(objects, listeners)
    except NotKnownError as error:
        not_known.append(NotKnown.of("switches of ftrace and kprobes", error))
    not_known += dict.fromkeys([*in_change, *_in_change(kernel, objects)])
    return Inventory(
        source=kernel.memory.name,
        release=kernel.memory.info.release or kernel.release,
        listeners=listeners,
        owners=owners,
        unlisted=unlisted,
        objects=objects,
        kernel=kernel,
        not_known=(*not_known, *owners.not_known),
        types=objects.source,
    )


def _in_change(kernel: RunningKernel, objects: Objects) -> Iterator[NotKnown]:
    """Yield the lists that were being changed while memory was taken: what is read of them may be of no moment."""
    for lock, what in _LOCKS.items():
        if is_held(objects.variables, lock):
            yield NotKnown(what, f"being changed ({lock} is held)", is_open=True)
    if isinstance(kernel.memory, Capture) and not kernel.memory.settled:
        yield NotKnown("all lists", "text or lists were being changed while they were captured", is_open=True)


def _nothing(kernel: RunningKernel, objects: Objects) -> Inventory:
    """Return an inventory without listeners: without types nothing can be read, and one sentence says so."""
    return Inventory(
        source=kernel.memory.name,
        release=kernel.memory.info.release or kernel.release,
        listeners=(),
        owners=Owners(kernel, objects, None),
        unlisted=(),
        objects=objects,
        kernel=kernel,
        not_known=(NotKnown("structs", _why_no_types()),),
        types=objects.source,
    )


def _why_no_types() -> str:
    if find_spec("drgn") is None:
        return f"the vmlinux has no BTF that describes them, and DWARF is read by drgn: {how_to_install('live')}"
    return "the vmlinux has neither BTF nor DWARF that describes them"
