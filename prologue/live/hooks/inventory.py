"""Everything that is attached to one kernel, what could not be read of it, and what checks of it report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Final

from prologue.dwarf.packed_debug import debug_info_section
from prologue.elf.image import ElfImage
from prologue.installation import how_to_install
from prologue.live.hooks.bpf_hooks import read_programs
from prologue.live.hooks.ftrace_hooks import read_direct_calls, read_fprobes, read_graph, read_ops
from prologue.live.hooks.listener import STOPPED, Listener
from prologue.live.hooks.modules import ListedModule, find_unlisted, listed_modules
from prologue.live.hooks.other_hooks import read_livepatches, read_tracers
from prologue.live.hooks.owners import Owners
from prologue.live.hooks.probe_hooks import is_armed, read_kprobes
from prologue.live.hooks.tracepoint_hooks import read_tracepoints
from prologue.live.memory.capture import Capture
from prologue.live.structs.ftrace_lists import ENABLED, read_records
from prologue.live.structs.objects import NotKnown, Objects, noted
from prologue.live.structs.variables import Variables
from prologue.live.system.running_kernel import RunningKernel

_BY_FTRACE: Final = frozenset({
    "ftrace_ops", "direct call", "function graph", "fprobe", "fentry", "fexit", "fmod_ret", "kprobe.multi",
    "kretprobe.multi",
})  # fmt: skip
_BY_KPROBES: Final = frozenset({"kprobe", "kretprobe"})


def mark_stopped(objects: Objects, listeners: tuple[Listener, ...]) -> tuple[Listener, ...]:
    """Give listeners that a switch stops the flag for that; errors as ``Objects.read``."""
    stopped = frozenset[str]()
    # After an error ftrace sets both, and leaves the calls in the text (``ftrace_kill``); so does who only writes the
    # variable, while the kernel itself disables every record (``ftrace_shutdown_sysctl``).
    is_off = _is_off(objects, "ftrace_enabled", 4, 0) and _is_off(objects, "ftrace_disabled", 4, 0)
    if is_off and not (read_records(objects).flags & ENABLED).any():
        stopped |= _BY_FTRACE
    if _is_off(objects, "kprobes_all_disarmed", 1, 1):
        stopped |= _BY_KPROBES
    return tuple(
        replace(listener, flags=(*listener.flags, STOPPED)) if _is_stopped(objects, listener, stopped) else listener
        for listener in listeners
    )


def _is_stopped(objects: Objects, listener: Listener, stopped: frozenset[str]) -> bool:
    """Return whether its kind is stopped. A switch disarms kprobes when it is set: a breakpoint in the text works."""
    kind = listener.way or listener.kind
    if kind not in stopped:
        return False
    return kind not in _BY_KPROBES or not any(is_armed(objects, place) for place in listener.functions or ())


def _is_off(objects: Objects, name: str, size: int, off: int) -> bool:
    return objects.has(name) and objects.variable(name, size) == off


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

    ``not_known`` says what could not be read, and why.
    """

    listeners: tuple[Listener, ...] = ()
    owners: Owners
    unlisted: tuple[ListedModule, ...] = ()
    objects: Objects
    kernel: RunningKernel
    not_known: tuple[NotKnown, ...]

    @property
    def is_of_one_moment(self) -> bool:
        """True if nothing can have changed while the lists were read: of what runs, programs and tasks come and go."""
        return not self.kernel.memory.live and not isinstance(self.kernel.memory, Capture)


def take_inventory(kernel: RunningKernel, objects: Objects | None = None) -> Inventory:
    """Read every list of listeners, with another reader of structs if ``objects`` is given."""
    objects = objects or Objects(Variables.of_kernel(kernel))
    if not objects.has_types:  # nothing can be read, and one sentence says so
        structs = NotKnown("structs", _why_no_types(kernel.image))
        return Inventory(owners=Owners(kernel, objects, None), objects=objects, kernel=kernel, not_known=(structs,))
    not_known: list[NotKnown] = []
    in_change = [*_in_change(kernel, objects)]
    modules: tuple[ListedModule, ...] | None = None
    with noted(not_known, "modules"):
        modules = listed_modules(objects)
    owners = Owners(kernel, objects, modules)
    unlisted: tuple[ListedModule, ...] = ()
    with noted(not_known, "modules that are not listed"):
        unlisted = find_unlisted(objects, owners.modules) if owners.complete else ()
    listeners: tuple[Listener, ...] = ()
    for what, read in _READERS:
        with noted(not_known, what):
            listeners += tuple(read(objects, owners.modules))
    with noted(not_known, "switches of ftrace and kprobes"):
        listeners = mark_stopped(objects, listeners)
    not_known += dict.fromkeys([*in_change, *_in_change(kernel, objects)])
    return Inventory(
        listeners=listeners,
        owners=owners,
        unlisted=unlisted,
        objects=objects,
        kernel=kernel,
        not_known=(*not_known, *owners.not_known),
    )


def _in_change(kernel: RunningKernel, objects: Objects) -> Iterator[NotKnown]:
    """Yield the lists that were being changed while memory was taken: what is read of them may be of no moment."""
    for lock, what in _LOCKS.items():
        if objects.variables.is_held(lock):
            yield NotKnown(what, f"being changed ({lock} is held)", is_open=True)
    if isinstance(kernel.memory, Capture) and not kernel.memory.one_moment:
        yield NotKnown("all lists", "text or lists were being changed while they were captured", is_open=True)


def _why_no_types(image: ElfImage) -> str:
    if debug_info_section(image) is not None and find_spec("drgn") is None:
        return (
            f"the vmlinux has no BTF that describes them, and DWARF is read by drgn: {how_to_install('live', 'drgn')}"
        )
    return "the vmlinux has neither BTF nor DWARF that describes them"
